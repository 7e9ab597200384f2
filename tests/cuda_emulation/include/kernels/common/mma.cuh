// Host twin of kernels/common/mma.cuh: the same functions, computed when the last lane of the warp
// has come, with the fragment layouts of the PTX ISA. Background copies arrive when they are waited
// for, and not before.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstring>
#include <source_location>

#include "kernels/common/element.cuh"
#include "tests/cuda_emulation/block.hpp"

namespace kvbench {
namespace emulation {

struct MmaLane {
  const unsigned* a;  // [4]
  unsigned b[2];
  float* sum;  // [4]
};

inline float half_of(unsigned pair, int index) {
  return index == 0 ? low_bf16(pair) : high_bf16(pair);
}

// sum [16, 8] += a [16, 16] * b [16, 8]
inline void complete_mma(void* const* lanes) {
  const auto lane = [&](int group, int place) {
    return static_cast<const MmaLane*>(lanes[group * 4 + place]);
  };
  float a[16][16], b[16][8];
  for (int group = 0; group < 8; ++group) {
    for (int place = 0; place < 4; ++place) {
      for (int e = 0; e < 2; ++e) {
        for (int r = 0; r < 4; ++r) {
          a[group + r % 2 * 8][2 * place + e + r / 2 * 8] = half_of(lane(group, place)->a[r], e);
        }
        for (int r = 0; r < 2; ++r) {
          b[2 * place + e + r * 8][group] = half_of(lane(group, place)->b[r], e);
        }
      }
    }
  }
  for (int row = 0; row < 16; ++row) {
    float sums[8] = {};
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) sums[column] += a[row][k] * b[k][column];
    }
    for (int column = 0; column < 8; ++column) {
      lane(row % 8, column / 2)->sum[row / 8 * 2 + column % 2] += sums[column];
    }
  }
}

struct LoadLane {
  const __nv_bfloat16* row;  // [8]
  unsigned* to;              // [4]
};

template <bool kTransposed>
void complete_load(void* const* lanes) {
  for (int matrix = 0; matrix < 4; ++matrix) {
    std::uint16_t rows[8][8];
    for (int row = 0; row < 8; ++row) {
      std::memcpy(rows[row], static_cast<const LoadLane*>(lanes[matrix * 8 + row])->row, 16);
    }
    for (int lane = 0; lane < 32; ++lane) {
      unsigned pair = 0;
      for (int e = 0; e < 2; ++e) {
        const int along = lane % 4 * 2 + e;
        const unsigned bits = kTransposed ? rows[along][lane / 4] : rows[lane / 4][along];
        pair |= bits << (16 * e);
      }
      static_cast<const LoadLane*>(lanes[lane])->to[matrix] = pair;
    }
  }
}

}  // namespace emulation

inline void multiply_add(const unsigned (&a)[4], unsigned b_low, unsigned b_high, float (&sum)[4],
                         std::source_location site = std::source_location::current()) {
  emulation::MmaLane lane{a, {b_low, b_high}, sum};
  emulation::warp_together(&lane, emulation::complete_mma, site);
}

inline void load_matrices(const __nv_bfloat16* row, unsigned (&to)[4],
                          std::source_location site = std::source_location::current()) {
  emulation::LoadLane lane{row, to};
  emulation::warp_together(&lane, emulation::complete_load<false>, site);
}

inline void load_matrices_transposed(const __nv_bfloat16* row, unsigned (&to)[4],
                                     std::source_location site = std::source_location::current()) {
  emulation::LoadLane lane{row, to};
  emulation::warp_together(&lane, emulation::complete_load<true>, site);
}

inline unsigned pack_bf16(float low, float high) {
  const __nv_bfloat16 pair[2] = {from_float<__nv_bfloat16>(low), from_float<__nv_bfloat16>(high)};
  unsigned bits;
  std::memcpy(&bits, pair, sizeof(bits));
  return bits;
}

inline void begin_copy(void* shared, const void* global, bool valid) {
  emulation::begin_copy(shared, valid ? global : nullptr);
}

inline void finish_copies() {
  emulation::finish_copies();
}

}  // namespace kvbench
