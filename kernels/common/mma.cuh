// Tensor cores and the copies that feed them: warp-wide matrix products of bf16, the loads that
// bring their operands into registers, and copies into shared memory that run in the background.
// Each function is one PTX instruction (PTX ISA, "Warp Level Matrix Instructions" and "Data
// Movement"). Tests replace this file by a twin that does the same with the lanes of the emulation.
//
// All lanes of a warp call the warp-wide functions together. `group` is lane / 4, `place` lane % 4.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace kvbench {

// sum [16, 8] += a [16, 16] * b [16, 8], sums in f32. A register holds two neighbours, the first in
// its low half:
//   a: rows group and group + 8 of columns 2 place + {0, 1}, then both of columns 8 + 2 place +
//   {0, 1}
//   b: column group, rows 2 place + {0, 1} and 8 + 2 place + {0, 1}
//   sum: row group, columns 2 place + {0, 1}, then the same of row group + 8
__device__ inline void multiply_add(const unsigned (&a)[4], unsigned b_low, unsigned b_high,
                                    float (&sum)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

__device__ inline unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// Four matrices [8, 8] of bf16 from shared memory. Lane i names row i % 8 of matrix i / 8, 16
// aligned bytes. Of each matrix a lane gets row `group`, columns 2 place + {0, 1}.
__device__ inline void load_matrices(const __nv_bfloat16* row, unsigned (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// The same, transposed: of each matrix a lane gets column `group`, rows 2 place + {0, 1}.
__device__ inline void load_matrices_transposed(const __nv_bfloat16* row, unsigned (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// Two f32 rounded to nearest even, the first in the low half.
__device__ inline unsigned pack_bf16(float low, float high) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Begins a copy of 16 aligned bytes from global to shared memory, or, not `valid`, zeroes them; the
// address must be one of the array all the same. There after this thread's finish_copies() and a
// barrier.
__device__ inline void begin_copy(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(global), "r"(valid ? 16 : 0)
               : "memory");
}

// Waits for the copies that this thread began.
__device__ inline void finish_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace kvbench
