// The CUDA runtime's calls on the emulated device.
#include <cuda_runtime.h>

#include <fmt/core.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/cuda_emulation/device.hpp"
#include "tests/cuda_emulation/emulation.hpp"

struct CUstream_st {};

struct CUevent_st {
  std::chrono::steady_clock::time_point recorded;
};

namespace kvbench::emulation {
namespace {

// Few, so that small tests already split their work over blocks.
constexpr int kMultiprocessors = 3;
constexpr std::size_t kSharedBytes = 48 * 1024;
constexpr std::size_t kSharedBytesOptin = 163 * 1024;  // of the smallest GPU that is supported
constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxGridYZ = 65535;

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

Device& device() {
  return Device::instance();
}

bool on_device(const void* address, std::size_t bytes) {
  return device().memory.contains(address, bytes, DeviceMemory::Kind::device);
}

bool pinned(const void* address, std::size_t bytes) {
  return device().memory.contains(address, bytes, DeviceMemory::Kind::pinned);
}

Device::Work copy_work(void* destination, const void* source, std::size_t bytes) {
  return [=] {
    if (bytes > 0) std::memcpy(destination, source, bytes);
    return std::string();
  };
}

}  // namespace

Device& Device::instance() {
  static Device device;
  return device;
}

void Device::reset() {
  queue_.clear();
  fault_.clear();
}

cudaError_t Device::enqueue(Work work) {
  if (status() != cudaSuccess) return status();
  queue_.push_back(std::move(work));
  return cudaSuccess;
}

cudaError_t Device::synchronize() {
  const DeviceMemory::Access access(memory);
  while (!queue_.empty() && fault_.empty()) {
    const Work work = std::move(queue_.front());
    queue_.pop_front();
    fault_ = work();
    ++operations_run_;
  }
  return status();
}

cudaError_t Device::check_launch(const LaunchRecord& launch) const {
  const dim3& grid = launch.grid;
  const dim3& block = launch.block;
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxThreads || grid.x == 0 || grid.x > 0x7FFFFFFFu || grid.y == 0 ||
      grid.y > kMaxGridYZ || grid.z == 0 || grid.z > kMaxGridYZ) {
    return cudaErrorInvalidConfiguration;
  }
  const auto allowed = allowed_.find(launch.kernel);
  if (launch.shared_bytes > (allowed == allowed_.end() ? kSharedBytes : allowed->second)) {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

cudaError_t enqueue_launch(LaunchRecord launch, cudaStream_t) {
  if (device().status() != cudaSuccess) return device().status();
  const cudaError_t refused = device().check_launch(launch);
  if (refused != cudaSuccess) return remember(refused);
  return device().enqueue([launch = std::move(launch)] {
    for (std::size_t i = 0; i < launch.words.size(); ++i) {
      if (device().memory.is_host_pointer(launch.words[i])) {
        return fmt::format("a kernel's argument, word {}, points to host memory", i);
      }
    }
    return run_launch(launch);
  });
}

void set_memory_limit(std::size_t bytes) {
  device().memory.set_limit(bytes);
}
void set_device_count(int count) {
  device().count = count;
}
std::string last_fault() {
  return device().fault();
}
void reset_device() {
  device().reset();
}
std::size_t allocated_bytes() {
  return device().memory.allocated_bytes();
}
std::size_t operations_run() {
  return device().operations_run();
}

}  // namespace kvbench::emulation

using namespace kvbench::emulation;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorLaunchFailure:
      return device().fault().c_str();
  }
  return "unknown error";
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
  }
  return "unknown";
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return device().status() != cudaSuccess ? device().status() : error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device().count;
  return device().count > 0 ? cudaSuccess : remember(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int index) {
  return index >= 0 && index < device().count ? cudaSuccess : remember(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  if (index < 0 || index >= device().count) return remember(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 8;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kSharedBytesOptin;
      break;
  }
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *total_bytes = device().memory.limit();
  *free_bytes = *total_bytes - std::min(*total_bytes, allocated_bytes());
  return device().status();
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (device().status() != cudaSuccess) return device().status();
  *memory = device().memory.allocate(bytes, DeviceMemory::Kind::device);
  return *memory != nullptr ? cudaSuccess : remember(cudaErrorMemoryAllocation);
}

// Waits for queued work first, as CUDA does.
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const cudaError_t finished = device().synchronize();
  const bool known = device().memory.release(memory, DeviceMemory::Kind::device);
  if (finished != cudaSuccess) return finished;
  return known ? cudaSuccess : remember(cudaErrorInvalidValue);
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  if (device().status() != cudaSuccess) return device().status();
  *memory = device().memory.allocate(bytes, DeviceMemory::Kind::pinned);
  return *memory != nullptr ? cudaSuccess : remember(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const cudaError_t finished = device().synchronize();
  const bool known = device().memory.release(memory, DeviceMemory::Kind::pinned);
  if (finished != cudaSuccess) return finished;
  return known ? cudaSuccess : remember(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpy(void* destination, const void* source, std::size_t bytes,
                       cudaMemcpyKind kind) {
  const cudaError_t queued = cudaMemcpyAsync(destination, source, bytes, kind, nullptr);
  return queued != cudaSuccess ? queued : cudaStreamSynchronize(nullptr);
}

// Pageable sources are read at once and pageable destinations written before the return; only
// pinned memory takes part in asynchronous copies.
cudaError_t cudaMemcpyAsync(void* destination, const void* source, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t) {
  const bool to_device = kind != cudaMemcpyDeviceToHost;
  const bool from_device = kind != cudaMemcpyHostToDevice;
  if (on_device(destination, bytes) != to_device || on_device(source, bytes) != from_device) {
    return remember(cudaErrorInvalidValue);
  }
  if (kind == cudaMemcpyHostToDevice && !pinned(source, bytes)) {
    const auto* begin = static_cast<const std::byte*>(source);
    auto staged = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
    return device().enqueue([=] {
      if (bytes > 0) std::memcpy(destination, staged->data(), bytes);
      return std::string();
    });
  }
  const cudaError_t queued = device().enqueue(copy_work(destination, source, bytes));
  if (queued != cudaSuccess || kind != cudaMemcpyDeviceToHost || pinned(destination, bytes)) {
    return queued;
  }
  return device().synchronize();
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
  if (!on_device(memory, bytes)) return remember(cudaErrorInvalidValue);
  return device().enqueue([=] {
    std::memset(memory, value, bytes);
    return std::string();
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (device().status() != cudaSuccess) return device().status();
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return device().status();
}

cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return device().synchronize();
}

cudaError_t cudaDeviceSynchronize() {
  return device().synchronize();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return device().status();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  return device().enqueue([event] {
    event->recorded = std::chrono::steady_clock::now();
    return std::string();
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return device().synchronize();
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->recorded - begin->recorded).count();
  return device().status();
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const cudaError_t finished = device().synchronize();
  delete event;
  return finished;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (value < 0 || static_cast<std::size_t>(value) > kSharedBytesOptin) {
    return remember(cudaErrorInvalidValue);
  }
  device().allow_shared_bytes(kernel, static_cast<std::size_t>(value));
  return cudaSuccess;
}
