// Running one operation on the CPU backend and on CudaBackend and comparing what comes back. On
// the emulated device each case runs in several orders of a block's threads: equal results under
// all of them are the check for races between barriers.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "core/dtype.hpp"
#include "tests/kernels/device_array.hpp"

#ifdef KVB_EMULATED_CUDA
#include "tests/cuda_emulation/emulation.hpp"
#endif

namespace kvbench::test {

template <class Run>
void for_each_thread_order(Run run) {
#ifdef KVB_EMULATED_CUDA
  using emulation::ThreadOrder;
  for (const ThreadOrder order :
       {ThreadOrder::ascending, ThreadOrder::descending, ThreadOrder::shuffled}) {
    emulation::set_thread_order(order);
    run();
  }
  emulation::set_thread_order(ThreadOrder::ascending);
#else
  require_device();
  run();
#endif
}

template <class T>
Buffer upload(Backend& backend, const std::vector<T>& host) {
  Buffer buffer = backend.allocate(host.size() * sizeof(T), nullptr);
  backend.copy_in(buffer.as<void>(), host.data(), host.size() * sizeof(T));
  return buffer;
}

// [n] elements of f32 or bf16, widened.
inline std::vector<float> download(Backend& backend, const void* memory, std::size_t n,
                                   DType dtype = DType::f32) {
  std::vector<float> values(n);
  if (dtype == DType::f32) {
    backend.copy_out(values.data(), memory, n * sizeof(float));
    return values;
  }
  std::vector<std::uint16_t> bits(n);
  backend.copy_out(bits.data(), memory, n * sizeof(std::uint16_t));
  std::transform(bits.begin(), bits.end(), values.begin(), bf16_to_float);
  return values;
}

// Normally distributed values, the same for the same seed.
inline std::vector<float> random_values(std::int64_t n, unsigned seed, float deviation = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = normal(generator);
  return values;
}

inline std::vector<std::uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), float_to_bf16);
  return bits;
}

// Uploads as f32 or, rounded, as bf16.
inline Buffer upload_as(Backend& backend, const std::vector<float>& values, DType dtype) {
  return dtype == DType::f32 ? upload(backend, values) : upload(backend, to_bf16(values));
}

// The tolerance is relative to the larger of 1 and the expected magnitude; NaN never passes.
inline void check_close(const std::vector<float>& found, const std::vector<float>& expected,
                        double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(double{found[i]} - double{expected[i]});
    if (difference <= tolerance * std::max(1.0, std::abs(double{expected[i]}))) continue;
    CAPTURE(i);
    CAPTURE(found[i]);
    CAPTURE(expected[i]);
    FAIL("values differ");
  }
}

// `run(backend)` returns what the operation wrote, as floats.
template <class Run>
void check_parity(double tolerance, Run run) {
  CpuBackend cpu(1);
  const std::vector<float> expected = run(cpu);
  for_each_thread_order([&] {
    CudaBackend cuda(1);
    check_close(run(cuda), expected, tolerance);
  });
}

constexpr double kF32Tolerance = 1e-5;
constexpr double kBf16Tolerance = 1.0 / 128;  // one step of an 8-bit significand

inline double tolerance_of(DType dtype) {
  return dtype == DType::f32 ? kF32Tolerance : kBf16Tolerance;
}

}  // namespace kvbench::test
