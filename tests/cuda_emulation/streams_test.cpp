// Streams, devices and graphs of the emulation: what order they promise and what they do not, and
// the calls that CUDA would refuse.
#include <cuda_runtime.h>

#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "backend/cuda/cuda_handles.hpp"
#include "backend/cuda/device_memory.hpp"
#include "kernels/common/launch.hpp"
#include "tests/cuda_emulation/emulation.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using test::contains;
using test::error_text;

void add_kernel(int* value, int more) {
  *value += more;
}

void add(int* value, int more, const CudaStream& stream) {
  launch("add", add_kernel, {.grid = 1, .block = 1, .stream = stream.get()}, value, more);
}

Buffer number(int value) {
  Buffer buffer = device_buffer(sizeof(int));
  check_cuda(cudaMemcpy(buffer.as<void>(), &value, sizeof(int), cudaMemcpyHostToDevice), "copy");
  return buffer;
}

int read(const Buffer& buffer) {
  int value = 0;
  check_cuda(cudaMemcpy(&value, buffer.as<void>(), sizeof(int), cudaMemcpyDeviceToHost), "copy");
  return value;
}

// While it lives there are so many devices.
class DeviceCount {
 public:
  explicit DeviceCount(int n) { emulation::set_device_count(n); }
  ~DeviceCount() {
    cudaSetDevice(0);
    emulation::set_device_count(1);
  }
  DeviceCount(const DeviceCount&) = delete;
  DeviceCount& operator=(const DeviceCount&) = delete;
};

TEST_CASE("streams run for themselves, unless an event orders them") {
  for (const bool ordered : {true, false}) {
    CudaStream first, second;
    CudaEvent done;
    Buffer a = number(1);
    Buffer b = number(0);
    add(a.as<int>(), 5, first);
    done.record(first.get());
    add(a.as<int>(), 100, first);  // behind the event
    if (ordered) cudaStreamWaitEvent(second.get(), done.get(), 0);
    check_cuda(cudaMemcpyAsync(b.as<void>(), a.as<void>(), sizeof(int), cudaMemcpyDeviceToDevice,
                               second.get()),
               "copy");
    second.synchronize();
    CHECK(read(b) == (ordered ? 6 : 1));
    first.synchronize();
    CHECK(read(a) == 106);
  }
}

TEST_CASE("each device has its own memory and limit; kernels and copies stay on one") {
  const DeviceCount two(2);
  Buffer here = number(1);
  check_cuda(cudaSetDevice(1), "cudaSetDevice");
  emulation::set_memory_limit(1000);
  const std::size_t used = emulation::allocated_bytes(1);
  Buffer there = device_buffer(900);
  CHECK(emulation::allocated_bytes(1) == used + 900);
  CHECK(contains(error_text<DeviceError>([] { device_buffer(200); }), "free on device 1"));
  emulation::set_memory_limit(std::size_t{4} << 30);

  CudaStream stream;  // of device 1
  CHECK(cudaMemcpyAsync(there.as<void>(), here.as<void>(), 4, cudaMemcpyDeviceToDevice,
                        stream.get()) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyPeerAsync(there.as<void>(), 1, here.as<void>(), 0, 4, stream.get()) ==
        cudaSuccess);
  stream.synchronize();
  CHECK(read(there) == 1);

  const std::string fault = error_text<DeviceError>([&] {
    add(here.as<int>(), 1, stream);
    stream.synchronize();
  });
  CHECK(contains(fault, "points to memory of device 0, not of 1"));
  emulation::reset_device();
  check_cuda(cudaSetDevice(0), "cudaSetDevice");
  CHECK(contains(error_text<DeviceError>([&] { add(here.as<int>(), 1, stream); }),
                 "invalid resource handle"));
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
}

cudaGraph_t captured(const CudaStream& stream, int* value, int more, int times) {
  check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed), "begin");
  for (int i = 0; i < times; ++i) add(value, more, stream);
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream.get(), &graph), "end");
  return graph;
}

TEST_CASE("a graph runs when it is launched, each time, and can be given new arguments") {
  CudaStream stream;
  Buffer a = number(0);
  cudaGraph_t graph = captured(stream, a.as<int>(), 3, 2);
  stream.synchronize();
  CHECK(read(a) == 0);
  cudaGraphExec_t executable = nullptr;
  check_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  for (int i = 0; i < 2; ++i) check_cuda(cudaGraphLaunch(executable, stream.get()), "launch");
  stream.synchronize();
  CHECK(read(a) == 12);

  cudaGraph_t same = captured(stream, a.as<int>(), 10, 2);
  cudaGraphExecUpdateResultInfo info{};
  CHECK(cudaGraphExecUpdate(executable, same, &info) == cudaSuccess);
  check_cuda(cudaGraphLaunch(executable, stream.get()), "launch");
  stream.synchronize();
  CHECK(read(a) == 32);

  cudaGraph_t longer = captured(stream, a.as<int>(), 10, 3);
  CHECK(cudaGraphExecUpdate(executable, longer, &info) == cudaErrorGraphExecUpdateFailure);
  for (cudaGraph_t each : {graph, same, longer}) cudaGraphDestroy(each);
  cudaGraphExecDestroy(executable);
}

TEST_CASE("a capture allows no allocation, no waiting and no pageable copies") {
  CudaStream stream;
  Buffer a = number(0);
  void* memory = nullptr;
  int host = 0;
  const auto broken_by = [&](auto call) {
    check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed), "begin");
    CHECK(call() == cudaErrorStreamCaptureUnsupported);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
  };
  broken_by([&] { return cudaMalloc(&memory, 4); });
  broken_by([&] { return cudaFree(a.as<void>()); });
  broken_by([&] { return cudaStreamSynchronize(stream.get()); });
  broken_by([&] {
    return cudaMemcpyAsync(a.as<void>(), &host, sizeof(int), cudaMemcpyHostToDevice, stream.get());
  });
  broken_by([&] {
    return cudaMemcpyAsync(&host, a.as<void>(), sizeof(int), cudaMemcpyDeviceToHost, stream.get());
  });
  CHECK(read(a) == 0);
}

}  // namespace
}  // namespace kvbench
