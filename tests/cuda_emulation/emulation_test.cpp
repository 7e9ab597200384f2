// The emulation itself: that it runs what CUDA would run, and that it notices what CUDA would not
// forgive. Each fault that it claims to detect is committed here once.
#include "tests/cuda_emulation/emulation.hpp"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "backend/cuda/cuda_backend.hpp"
#include "core/error.hpp"
#include "kernels/common/launch.hpp"
#include "kernels/common/mma.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/shared.cuh"
#include "tests/kernels/device_array.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using emulation::ThreadOrder;
using test::contains;
using test::DeviceArray;
using test::error_text;

void synchronize() {
  check_cuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

// The message of the fault that the launch ends in; afterwards the device is usable again.
template <class Launch>
std::string fault_of(Launch launch) {
  const std::string text = error_text<DeviceError>([&] {
    launch();
    synchronize();
  });
  CHECK(text == error_text<DeviceError>(synchronize));  // it stays, as CUDA's does
  emulation::reset_device();
  return text;
}

struct EveryOrder {
  template <class Run>
  void operator()(Run run) const {
    for (const ThreadOrder order :
         {ThreadOrder::ascending, ThreadOrder::descending, ThreadOrder::shuffled}) {
      emulation::set_thread_order(order);
      run();
    }
    emulation::set_thread_order(ThreadOrder::ascending);
  }
};

// Reverses each block's elements by way of shared memory.
void reverse_kernel(const int* in, int* out, bool with_barrier) {
  SharedArena arena;
  int* tile = arena.take<int>(static_cast<int>(blockDim.x));
  const unsigned first = blockIdx.x * blockDim.x;
  tile[threadIdx.x] = in[first + threadIdx.x];
  if (with_barrier) __syncthreads();
  out[first + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

std::vector<int> reversed_blocks(bool with_barrier) {
  std::vector<int> values(96);
  std::iota(values.begin(), values.end(), 0);
  DeviceArray<int> in(values);
  DeviceArray<int> out(std::vector<int>(values.size(), -1));
  launch("reverse", reverse_kernel,
         {.grid = dim3(2), .block = dim3(48), .shared_bytes = 48 * sizeof(int)}, in.data(),
         out.data(), with_barrier);
  return out.to_host();
}

TEST_CASE("barriers make shared memory visible, in every thread order") {
  EveryOrder()([] {
    const std::vector<int> found = reversed_blocks(true);
    for (int i = 0; i < 96; ++i) {
      CHECK(found[static_cast<std::size_t>(i)] == i / 48 * 48 + 47 - i % 48);
    }
  });
}

TEST_CASE("a missing barrier shows: the result depends on the thread order") {
  std::vector<std::vector<int>> results;
  EveryOrder()([&] { results.push_back(reversed_blocks(false)); });
  CHECK(results[0] != results[1]);
  CHECK(results[0] != results[2]);
}

void warp_kernel(float* out) {
  const float lane = static_cast<float>(threadIdx.x % 32);
  const float sum = warp_sum(lane);
  const float pair = warp_sum<2>(lane);
  const unsigned odd = __ballot_sync(kAllLanes, threadIdx.x & 1u);
  const float next = __shfl_down_sync(kAllLanes, lane, 1);
  const float third = __shfl_sync(kAllLanes, lane, 3, 8);
  out[threadIdx.x * 5] = sum;
  out[threadIdx.x * 5 + 1] = pair;
  out[threadIdx.x * 5 + 2] = odd == 0xAAAAAAAAu ? 1.0f : 0.0f;
  out[threadIdx.x * 5 + 3] = next;
  out[threadIdx.x * 5 + 4] = third;
}

TEST_CASE("warp collectives") {
  EveryOrder()([] {
    DeviceArray<float> out(std::vector<float>(64 * 5, 0.0f));
    launch("warp", warp_kernel, {.grid = dim3(1), .block = dim3(64)}, out.data());
    const std::vector<float> found = out.to_host();
    for (int thread = 0; thread < 64; ++thread) {
      const auto at = [&](int i) { return found[static_cast<std::size_t>(thread * 5 + i)]; };
      const int lane = thread % 32;
      CHECK(at(0) == 496.0f);
      CHECK(at(1) == static_cast<float>(lane / 2 * 4 + 1));
      CHECK(at(2) == 1.0f);
      CHECK(at(3) == static_cast<float>(lane == 31 ? 31 : lane + 1));
      CHECK(at(4) == static_cast<float>(lane / 8 * 8 + 3));
    }
  });
}

void half_barrier_kernel() {
  if (threadIdx.x < 8) __syncthreads();
}

void two_barriers_kernel() {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

void half_shuffle_kernel(float* out) {
  if (threadIdx.x >= 16) return;
  *out = warp_sum(1.0f);
}

void foreign_mask_kernel() {
  if (threadIdx.x == 5) __syncwarp(1u);
}

TEST_CASE("barriers and collectives that not all threads reach are faults") {
  const LaunchShape shape{.grid = dim3(1), .block = dim3(32)};
  EveryOrder()([&] {
    std::string text = fault_of([&] { launch("half", half_barrier_kernel, shape); });
    CHECK(contains(text, "divergent barrier"));
    CHECK(contains(text, "emulation_test.cpp"));
    CHECK(contains(text, "last kernel queued: half"));
    text = fault_of([&] { launch("two", two_barriers_kernel, shape); });
    CHECK(contains(text, "divergent barrier"));
    CHECK(contains(text, "waits at"));
    DeviceArray<float> out(std::vector<float>(1, 0.0f));
    text = fault_of([&] { launch("shuffle", half_shuffle_kernel, shape, out.data()); });
    CHECK(contains(text, "divergent warp collective"));
    CHECK(contains(text, "has ended"));
    text = fault_of([&] { launch("mask", foreign_mask_kernel, shape); });
    CHECK(contains(text, "mask without itself"));
  });
  // The next launch works.
  CHECK(reversed_blocks(true)[0] == 47);
}

void unwritten_kernel(float* out) {
  SharedArena arena;
  const float* tile = arena.take<float>(4);
  *out = tile[2];
}

TEST_CASE("memory that was never written is NaN") {
  DeviceArray<float> out(std::vector<float>(1, 0.0f));
  launch("unwritten", unwritten_kernel, {.grid = dim3(1), .block = dim3(1), .shared_bytes = 16},
         out.data());
  CHECK(std::isnan(out.to_host()[0]));
  const Buffer fresh = device_buffer(sizeof(float));
  float value = 0.0f;
  check_cuda(cudaMemcpy(&value, fresh.as<void>(), sizeof(float), cudaMemcpyDeviceToHost), "copy");
  CHECK(std::isnan(value));
}

TEST_CASE("launches outside the hardware's limits are refused at once") {
  DeviceArray<float> out(std::vector<float>(1, 0.0f));
  const auto refused = [&](const LaunchShape& shape) {
    return error_text<DeviceError>(
        [&] { launch("unwritten", unwritten_kernel, shape, out.data()); });
  };
  CHECK(contains(refused({.grid = dim3(1), .block = dim3(1025)}), "invalid configuration"));
  CHECK(contains(refused({.grid = dim3(0), .block = dim3(32)}), "invalid configuration"));
  CHECK(contains(refused({.grid = dim3(1, 65536), .block = dim3(32)}), "invalid configuration"));
  CHECK(contains(refused({.grid = dim3(1), .block = dim3(32), .shared_bytes = 200 * 1024}),
                 "invalid argument"));
  const std::string text = fault_of([&] {
    launch("unwritten", unwritten_kernel, {.grid = dim3(1), .block = dim3(1), .shared_bytes = 8},
           out.data());
  });
  CHECK(contains(text, "shared arrays need 16 bytes, the launch gave 8"));
}

TEST_CASE("kernel arguments that point to host memory are faults") {
  std::vector<float> host(1000, 0.0f);
  const std::string text = fault_of([&] {
    launch("unwritten", unwritten_kernel, {.grid = dim3(1), .block = dim3(1), .shared_bytes = 16},
           host.data());
  });
  CHECK(contains(text, "points to host memory"));
}

TEST_CASE("copies outside an allocation, or in the wrong direction, are refused") {
  DeviceArray<float> array(std::vector<float>(4, 0.0f));
  std::vector<float> host(8, 1.0f);
  CHECK(cudaMemcpy(array.data(), host.data(), 5 * sizeof(float), cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), array.data() + 2, 3 * sizeof(float), cudaMemcpyDeviceToHost) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), array.data(), sizeof(float), cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpy(array.data(), host.data(), 4 * sizeof(float), cudaMemcpyHostToDevice) ==
        cudaSuccess);
}

TEST_CASE("work is queued: pinned memory that changes too early reaches the device changed") {
  CudaStream stream;
  PinnedMemory pinned(sizeof(int));
  DeviceArray<int> array(std::vector<int>(1, 0));
  auto* value = reinterpret_cast<int*>(pinned.data());
  *value = 1;
  check_cuda(
      cudaMemcpyAsync(array.data(), value, sizeof(int), cudaMemcpyHostToDevice, stream.get()),
      "copy");
  *value = 2;
  stream.synchronize();
  CHECK(array.to_host()[0] == 2);
  // A pageable source has been read when the call returns.
  int pageable = 3;
  check_cuda(
      cudaMemcpyAsync(array.data(), &pageable, sizeof(int), cudaMemcpyHostToDevice, stream.get()),
      "copy");
  pageable = 4;
  stream.synchronize();
  CHECK(array.to_host()[0] == 3);
}

TEST_CASE("out of memory is an error that says how much, and the device goes on") {
  emulation::set_memory_limit(emulation::allocated_bytes() + 1000);
  const std::string text = error_text<DeviceError>([] { device_buffer(5000); });
  CHECK(contains(text, "out of GPU memory: 5000 bytes asked for, 1000 of"));
  CHECK_NOTHROW(device_buffer(500));
  emulation::set_memory_limit(std::size_t{4} << 30);
  CHECK(reversed_blocks(true)[0] == 47);
}

TEST_CASE("without a device the backend says so") {
  CHECK(cuda_obstacle().empty());
  emulation::set_device_count(0);
  CHECK(cuda_obstacle() == "no CUDA-capable device is detected");
  CHECK_THROWS_AS(CudaBackend(1), DeviceError);
  emulation::set_device_count(1);
  CHECK(cuda_obstacle().empty());
}

// out [16, 8] = a [16, 16] * b^T, b [8, 16], through shared memory, background copies and the
// loads of fragments. `transposed`: b is [16, 8], read transposed.
void product_kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out, bool transposed,
                    bool wait) {
  SharedArena arena;
  __nv_bfloat16* tile_a = arena.take<__nv_bfloat16>(16 * 16);
  __nv_bfloat16* tile_b = arena.take<__nv_bfloat16>(16 * 16);
  const int lane = static_cast<int>(threadIdx.x);
  begin_copy(tile_a + 8 * lane, a + 8 * lane, true);
  begin_copy(tile_b + 8 * lane, b, false);
  if (wait) finish_copies();
  __syncthreads();
  const int columns = transposed ? 8 : 16;
  for (int i = lane; i < 8 * 16; i += 32) tile_b[i / columns * 16 + i % columns] = b[i];
  __syncthreads();
  unsigned from_a[4], from_b[4];
  load_matrices(tile_a + lane % 16 * 16 + lane / 16 * 8, from_a);
  float sum[4] = {};
  if (transposed) {
    load_matrices_transposed(tile_b + lane % 16 * 16 + lane / 16 * 8, from_b);
  } else {
    load_matrices(tile_b + (lane / 16 * 8 + lane % 8) * 16 + lane / 8 % 2 * 8, from_b);
  }
  multiply_add(from_a, from_b[0], from_b[1], sum);
  for (int e = 0; e < 4; ++e) {
    out[(lane / 4 + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2] = sum[e];
  }
}

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b,
                           bool transposed, bool wait = true) {
  const auto rounded = [](const std::vector<float>& values) {
    return std::vector<__nv_bfloat16>(values.begin(), values.end());
  };
  DeviceArray<__nv_bfloat16> device_a(rounded(a));
  DeviceArray<__nv_bfloat16> device_b(rounded(b));
  DeviceArray<float> out(std::vector<float>(16 * 8));
  launch("product", product_kernel, {.grid = 1, .block = 32, .shared_bytes = 1024}, device_a.data(),
         device_b.data(), out.data(), transposed, wait);
  return out.to_host();
}

TEST_CASE("warp products give what the matrices give, plain and transposed") {
  // Small whole numbers: every sum is exact.
  std::vector<float> a, b;
  for (int i = 0; i < 16 * 16; ++i) a.push_back(static_cast<float>(i * 7 % 11 - 5));
  for (int i = 0; i < 8 * 16; ++i) b.push_back(static_cast<float>(i * 5 % 13 - 6));
  for (const bool transposed : {false, true}) {
    std::vector<float> expected;
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        float sum = 0.0f;
        for (int k = 0; k < 16; ++k) {
          const int at = transposed ? k * 8 + column : column * 16 + k;
          sum += a[static_cast<std::size_t>(row * 16 + k)] * b[static_cast<std::size_t>(at)];
        }
        expected.push_back(sum);
      }
    }
    EveryOrder()([&] { CHECK(product(a, b, transposed) == expected); });
  }
}

TEST_CASE("background copies that nobody waits for have not arrived") {
  const std::vector<float> ones(16 * 16, 1.0f);
  CHECK(product(ones, ones, false).front() == 16.0f);
  CHECK(std::isnan(product(ones, ones, false, false).front()));
}

void lone_lanes_kernel() {
  unsigned a[4] = {};
  float sum[4] = {};
  if (threadIdx.x < 16) multiply_add(a, 0, 0, sum);
}

TEST_CASE("a warp product that not all lanes reach, or in a warp that is not whole, is a fault") {
  CHECK(contains(fault_of([] { launch("lone", lone_lanes_kernel, {.grid = 1, .block = 32}); }),
                 "divergent warp collective"));
  CHECK(contains(fault_of([] { launch("lone", lone_lanes_kernel, {.grid = 1, .block = 16}); }),
                 "needs a whole warp, this one has 16 lanes"));
}

}  // namespace
}  // namespace kvbench
