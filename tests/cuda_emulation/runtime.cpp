// The CUDA runtime's calls on the emulated device.
#include <cuda_runtime.h>

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/cuda_emulation/emulation.hpp"
#include "tests/cuda_emulation/machine.hpp"
#include "tests/cuda_emulation/streams.hpp"

namespace kvbench::emulation {
namespace {

// Few, so that small tests already split their work over blocks.
constexpr int kMultiprocessors = 3;
constexpr std::size_t kSharedBytesOptin = 163 * 1024;  // of the smallest GPU that is supported

thread_local cudaError_t last_error = cudaSuccess;

bool on_device(const void* address, std::size_t bytes) {
  return machine().memory.contains(address, bytes, DeviceMemory::Kind::device);
}

// On the current device.
bool here(const void* address, std::size_t bytes) {
  return on_device(address, bytes) &&
         machine().memory.device_of(reinterpret_cast<std::uintptr_t>(address)) ==
             machine().current_device;
}

bool pinned(const void* address, std::size_t bytes) {
  return machine().memory.contains(address, bytes, DeviceMemory::Kind::pinned);
}

Work copy_work(void* destination, const void* source, std::size_t bytes) {
  return {[=] {
    if (bytes > 0) std::memcpy(destination, source, bytes);
    return std::string();
  }};
}

// Why a kernel on this device must not get this argument, or an empty string.
std::string misplaced(std::uintptr_t word, std::size_t index, int device) {
  if (machine().memory.is_host_pointer(word)) {
    return fmt::format("a kernel's argument, word {}, points to host memory", index);
  }
  const int owner = machine().memory.device_of(word);
  if (owner == -1 || owner == device) return {};
  return fmt::format("a kernel's argument, word {}, points to memory of device {}, not of {}",
                     index, owner, device);
}

}  // namespace

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

Queue& queue_of(cudaStream_t stream) {
  return stream == nullptr ? machine().default_queue() : *stream->queue;
}

cudaError_t enqueue_launch(LaunchRecord launch, cudaStream_t stream) {
  if (machine().status() != cudaSuccess) return machine().status();
  const cudaError_t refused = machine().check_launch(launch);
  if (refused != cudaSuccess) return remember(refused);
  Queue& queue = queue_of(stream);
  const void* kernel = launch.kernel;
  return remember(
      machine().enqueue(queue, {[launch = std::move(launch), device = queue.device] {
                                  for (std::size_t i = 0; i < launch.words.size(); ++i) {
                                    std::string fault = misplaced(launch.words[i], i, device);
                                    if (!fault.empty()) return fault;
                                  }
                                  return run_launch(launch);
                                },
                                kernel}));
}

void set_memory_limit(std::size_t bytes) {
  machine().memory.set_limit(bytes);
}
void set_device_count(int count) {
  machine().device_count = count;
}
std::string last_fault() {
  return machine().fault();
}
void reset_device() {
  machine().reset();
}
std::size_t allocated_bytes() {
  return machine().memory.allocated_bytes();
}
std::size_t allocated_bytes(int device) {
  return machine().memory.allocated_bytes(device);
}
std::size_t allocations() {
  return machine().memory.allocations();
}
std::size_t operations_run() {
  return machine().operations_run();
}
GraphCounts graph_counts() {
  return {machine().graphs_made, machine().graphs_updated, machine().graphs_launched};
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
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorGraphExecUpdateFailure:
      return "the graph update was not performed because it included changes which violated "
             "constraints specific to instantiated graph update";
    case cudaErrorLaunchFailure:
      return machine().fault().c_str();
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
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorGraphExecUpdateFailure:
      return "cudaErrorGraphExecUpdateFailure";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
  }
  return "unknown";
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return machine().status() != cudaSuccess ? machine().status() : error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine().device_count;
  return machine().device_count > 0 ? cudaSuccess : remember(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int index) {
  if (index < 0 || index >= machine().device_count) return remember(cudaErrorInvalidDevice);
  machine().current_device = index;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* index) {
  *index = machine().current_device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  if (index < 0 || index >= machine().device_count) return remember(cudaErrorInvalidDevice);
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
  *total_bytes = machine().memory.limit();
  *free_bytes = *total_bytes - std::min(*total_bytes, allocated_bytes(machine().current_device));
  return machine().status();
}

namespace {

cudaError_t allocate(void** memory, std::size_t bytes, DeviceMemory::Kind kind) {
  if (machine().status() != cudaSuccess) return machine().status();
  if (machine().capturing()) return remember(machine().refuse_in_capture());
  *memory = machine().memory.allocate(bytes, kind, machine().current_device);
  return *memory != nullptr ? cudaSuccess : remember(cudaErrorMemoryAllocation);
}

// Waits for queued work first, as CUDA does.
cudaError_t release(void* memory, DeviceMemory::Kind kind) {
  if (memory == nullptr) return cudaSuccess;
  if (machine().capturing()) return remember(machine().refuse_in_capture());
  const cudaError_t finished = machine().synchronize();
  const bool known = machine().memory.release(memory, kind);
  if (finished != cudaSuccess) return finished;
  return known ? cudaSuccess : remember(cudaErrorInvalidValue);
}

}  // namespace

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return allocate(memory, bytes, DeviceMemory::Kind::device);
}

cudaError_t cudaFree(void* memory) {
  return release(memory, DeviceMemory::Kind::device);
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return allocate(memory, bytes, DeviceMemory::Kind::pinned);
}

cudaError_t cudaFreeHost(void* memory) {
  return release(memory, DeviceMemory::Kind::pinned);
}

cudaError_t cudaMemcpy(void* destination, const void* source, std::size_t bytes,
                       cudaMemcpyKind kind) {
  const cudaError_t queued = cudaMemcpyAsync(destination, source, bytes, kind, nullptr);
  return queued != cudaSuccess ? queued : cudaStreamSynchronize(nullptr);
}

// Pageable sources are read at once and pageable destinations written before the return; only
// pinned memory takes part in asynchronous copies, and in captures.
cudaError_t cudaMemcpyAsync(void* destination, const void* source, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  Queue& queue = queue_of(stream);
  const bool to_device = kind != cudaMemcpyDeviceToHost;
  const bool from_device = kind != cudaMemcpyHostToDevice;
  const auto fits = [&](const void* address, bool device) {
    return device ? here(address, bytes) : !on_device(address, bytes);
  };
  if (!fits(destination, to_device) || !fits(source, from_device)) {
    return remember(cudaErrorInvalidValue);
  }
  const void* host = to_device ? source : destination;
  const bool pageable = kind != cudaMemcpyDeviceToDevice && !pinned(host, bytes);
  if (pageable && queue.capture != nullptr) return remember(machine().refuse_in_capture());
  if (pageable && to_device) {
    const auto* begin = static_cast<const std::byte*>(source);
    auto staged = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
    return remember(machine().enqueue(queue, {[=] {
                                        if (bytes > 0) {
                                          std::memcpy(destination, staged->data(), bytes);
                                        }
                                        return std::string();
                                      }}));
  }
  const cudaError_t queued = machine().enqueue(queue, copy_work(destination, source, bytes));
  return queued != cudaSuccess || !pageable ? remember(queued) : machine().synchronize(queue);
}

cudaError_t cudaMemcpyPeerAsync(void* destination, int to, const void* source, int from,
                                std::size_t bytes, cudaStream_t stream) {
  const auto lies = [&](const void* address, int device) {
    return on_device(address, bytes) &&
           machine().memory.device_of(reinterpret_cast<std::uintptr_t>(address)) == device;
  };
  if (!lies(destination, to) || !lies(source, from)) return remember(cudaErrorInvalidValue);
  return remember(machine().enqueue(queue_of(stream), copy_work(destination, source, bytes)));
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (!here(memory, bytes)) return remember(cudaErrorInvalidValue);
  return remember(machine().enqueue(queue_of(stream), {[=] {
                                      std::memset(memory, value, bytes);
                                      return std::string();
                                    }}));
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (value < 0 || static_cast<std::size_t>(value) > kSharedBytesOptin) {
    return remember(cudaErrorInvalidValue);
  }
  machine().allow_shared_bytes(kernel, static_cast<std::size_t>(value));
  return cudaSuccess;
}
