// The CUDA C++ that kvbench's kernels are written in, for the host compiler: keywords, built-in
// variables, barriers, warp collectives, atomics and the typed launch. A block's threads are fibers
// of one system thread (block.hpp), so none of this needs locks.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/cuda_emulation/block.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

// Set by the scheduler before it lets a thread run.
inline uint3 threadIdx{}, blockIdx{};
inline dim3 blockDim{}, gridDim{};

// ---- barriers and warp collectives; each knows the place in the source that it was called from
// ----

inline void __syncthreads(std::source_location site = std::source_location::current()) {
  kvbench::emulation::block_barrier(site);
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFFu,
                       std::source_location site = std::source_location::current()) {
  kvbench::emulation::warp_exchange(mask, 0, 0, site);
}

namespace kvbench::emulation {

// The value that lane `source` posts in the same collective.
template <class T>
T shuffle(unsigned mask, T value, unsigned source, const std::source_location& site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp_exchange(mask, bits, source, site).value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace kvbench::emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              std::source_location site = std::source_location::current()) {
  const unsigned lane = kvbench::emulation::lane_index();
  const auto segment = lane / static_cast<unsigned>(width) * static_cast<unsigned>(width);
  return kvbench::emulation::shuffle(
      mask, value, segment + static_cast<unsigned>(source) % static_cast<unsigned>(width), site);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  std::source_location site = std::source_location::current()) {
  const unsigned lane = kvbench::emulation::lane_index();
  const unsigned source = lane ^ static_cast<unsigned>(lane_mask);
  const auto w = static_cast<unsigned>(width);
  return kvbench::emulation::shuffle(mask, value, source / w == lane / w ? source : lane, site);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   std::source_location site = std::source_location::current()) {
  const unsigned lane = kvbench::emulation::lane_index();
  const auto w = static_cast<unsigned>(width);
  const unsigned source = lane + delta;
  return kvbench::emulation::shuffle(mask, value, source / w == lane / w ? source : lane, site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location site = std::source_location::current()) {
  const std::uint64_t vote = predicate != 0 ? 1 : 0;
  return kvbench::emulation::warp_exchange(mask, vote, 0, site).votes;
}

inline int __any_sync(unsigned mask, int predicate,
                      std::source_location site = std::source_location::current()) {
  return __ballot_sync(mask, predicate, site) != 0 ? 1 : 0;
}

inline int __all_sync(unsigned mask, int predicate,
                      std::source_location site = std::source_location::current()) {
  return __ballot_sync(mask, predicate, site) == mask ? 1 : 0;
}

inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline int min(int a, int b) {
  return a < b ? a : b;
}
inline int max(int a, int b) {
  return a > b ? a : b;
}
inline int __popc(unsigned bits) {
  return std::popcount(bits);
}

// ---- atomics ----

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  const T before = *address;
  *address = before + value;
  return before;
}

template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  const T before = *address;
  if (value > before) *address = value;
  return before;
}

template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  const T before = *address;
  if (value < before) *address = value;
  return before;
}

// ---- loads and fast arithmetic ----

template <class T>
T __ldg(const T* address) {
  return *address;
}
inline float __expf(float x) {
  return std::exp(x);
}

// ---- launch ----

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);

namespace kvbench::emulation {

cudaError_t enqueue_launch(LaunchRecord record, cudaStream_t stream);

// Takes a copy whose padding is cleared: old stack contents may look like pointers.
template <class Param>
void note_argument(LaunchRecord& record, Param copy) {
  __builtin_clear_padding(&copy);
  record.add_argument(&copy, sizeof(copy));
}

}  // namespace kvbench::emulation

template <class... Params>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Params...), cudaFuncAttribute attribute,
                                 int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

template <class... Params>
cudaError_t cudaLaunchKernel(void (*kernel)(Params...), dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  kvbench::emulation::LaunchRecord record;
  record.kernel = reinterpret_cast<const void*>(kernel);
  record.grid = grid;
  record.block = block;
  record.shared_bytes = shared_bytes;
  // Arguments are copied at the launch, as the hardware's are.
  auto copies = [&]<std::size_t... i>(std::index_sequence<i...>) {
    (kvbench::emulation::note_argument(record, *static_cast<const Params*>(arguments[i])), ...);
    return std::tuple<Params...>(*static_cast<const Params*>(arguments[i])...);
  }
  (std::index_sequence_for<Params...>{});
  record.body = [kernel, copies] { std::apply(kernel, copies); };
  return kvbench::emulation::enqueue_launch(std::move(record), stream);
}
