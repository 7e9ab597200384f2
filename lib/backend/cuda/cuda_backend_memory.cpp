// CudaBackend: its device, memory and copies, and how its work is queued: directly or as graphs.
#include <algorithm>

#include "backend/cuda/cuda_backend.hpp"
#include "core/error.hpp"

namespace kvbench {
namespace {

// The device, which is current from here on.
int open_device(int device) {
  const int n_devices = cuda_device_count();
  if (device < 0 || device >= n_devices) {
    device_error("CUDA device {}: this machine has {} (numbered from 0)", device, n_devices);
  }
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  return device;
}

int device_attribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

// What cuBLAS recommends; its own would be allocated during captures.
std::size_t blas_workspace_bytes(int device) {
  constexpr int kHopper = 9;
  const bool large = device_attribute(cudaDevAttrComputeCapabilityMajor, device) >= kHopper;
  return std::size_t{large ? 32u : 4u} << 20;
}

}  // namespace

std::string_view cuda_obstacle() {
  int n_devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&n_devices);
  if (status == cudaSuccess && n_devices > 0) return {};
  cudaGetLastError();
  return status == cudaSuccess ? "no CUDA device" : cudaGetErrorString(status);
}

int cuda_device_count() {
  int n_devices = 0;
  check_cuda(cudaGetDeviceCount(&n_devices), "cudaGetDeviceCount");
  return n_devices;
}

CudaBackend::CudaBackend(int threads, const CudaOptions& options)
    : threads_(threads),
      graphs_(options.graphs),
      device_(open_device(options.device)),
      n_multiprocessors_(device_attribute(cudaDevAttrMultiProcessorCount, device_)),
      capture_(stream_.get()),
      blas_(stream_.get()),
      blas_workspace_(device_buffer(blas_workspace_bytes(device_))),
      staging_(stream_.get()),
      row_mover_(staging_, stream_.get()),
      attention_(staging_, stream_.get(), n_multiprocessors_) {
  check_blas(cublasSetWorkspace(blas_.get(), blas_workspace_.as<void>(), blas_workspace_.bytes()),
             "cublasSetWorkspace");
}

CudaBackend::~CudaBackend() {
  cudaSetDevice(device_);
  cudaStreamSynchronize(stream_.get());
}

void CudaBackend::use_device() const {
  check_cuda(cudaSetDevice(device_), "cudaSetDevice");
}

void CudaBackend::queue_work() {
  use_device();
  capture_.record();
}

void CudaBackend::queue_directly() {
  flush_captures();
  use_device();
}

void CudaBackend::begin_step(std::int64_t n_tokens) {
  if (!graphs_ || n_tokens > kMaxDecodeTokens) return;
  queue_directly();
  staging_.begin_step();
  capture_.begin_step();
}

void CudaBackend::end_step() {
  use_device();
  capture_.end_step();
}

void CudaBackend::synchronize() {
  queue_directly();
  stream_.synchronize();
}

Buffer CudaBackend::allocate(std::size_t bytes, MemoryMeter* meter) {
  queue_directly();
  Buffer buffer = device_buffer(bytes, meter);
  if (bytes > 0) {
    check_cuda(cudaMemsetAsync(buffer.as<void>(), 0, bytes, stream_.get()), "cudaMemsetAsync");
  }
  return buffer;
}

// The source may be gone after the return: small ones are staged, and a copy from pageable memory
// has read it by then.
void CudaBackend::copy_in(void* destination, const void* host_source, std::size_t bytes) {
  constexpr std::size_t kStaged = std::size_t{32} << 10;
  if (bytes <= kStaged) {
    queue_work();
    Staging::Block block = staging_.open(bytes + Staging::kArrayPadding);
    auto* staged = block.add<std::byte>(static_cast<std::int64_t>(bytes));
    std::copy_n(static_cast<const std::byte*>(host_source), bytes, staged);
    block.send_to(destination, bytes);
    return;
  }
  queue_directly();
  check_cuda(
      cudaMemcpyAsync(destination, host_source, bytes, cudaMemcpyHostToDevice, stream_.get()),
      "cudaMemcpyAsync to the device");
}

void CudaBackend::copy_out(void* host_destination, const void* source, std::size_t bytes) {
  queue_directly();
  check_cuda(
      cudaMemcpyAsync(host_destination, source, bytes, cudaMemcpyDeviceToHost, stream_.get()),
      "cudaMemcpyAsync to the host");
  stream_.synchronize();
}

// The other device's later work waits too: it may overwrite the source.
void CudaBackend::copy_from(Backend& other, void* destination, const void* source,
                            std::size_t bytes) {
  auto& from = static_cast<CudaBackend&>(other);
  from.queue_directly();
  from.queued_.record(from.stream_.get());
  use_device();
  check_cuda(cudaStreamWaitEvent(stream_.get(), from.queued_.get(), 0), "cudaStreamWaitEvent");
  check_cuda(cudaMemcpyPeerAsync(destination, device_, source, from.device_, bytes, stream_.get()),
             "cudaMemcpyPeerAsync");
  arrived_.record(stream_.get());
  from.use_device();
  check_cuda(cudaStreamWaitEvent(from.stream_.get(), arrived_.get(), 0), "cudaStreamWaitEvent");
}

void CudaBackend::copy_rows(void* destination, const void* source, std::size_t bytes) {
  queue_work();
  check_cuda(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToDevice, stream_.get()),
             "cudaMemcpyAsync on the device");
}

}  // namespace kvbench
