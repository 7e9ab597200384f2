// Staging: blocks out of two halves that take turns.
#include "backend/cuda/staging.hpp"

#include "backend/cuda/device_memory.hpp"

namespace kvbench {
namespace {

constexpr std::size_t kInitialHalfBytes = std::size_t{256} * 1024;

std::size_t padded(std::size_t bytes) {
  return (bytes + Staging::kArrayPadding - 1) / Staging::kArrayPadding * Staging::kArrayPadding;
}

}  // namespace

Staging::Staging(cudaStream_t stream) : stream_(stream) {
  allocate(kInitialHalfBytes);
}

void Staging::allocate(std::size_t half_bytes) {
  for (Half& half : halves_) {
    half.host.reset();
    half.host = std::make_unique<PinnedMemory>(half_bytes);
    half.device = device_buffer(half_bytes);
    half.left = false;
  }
  half_bytes_ = half_bytes;
  current_ = 0;
  used_ = 0;
}

Staging::Block Staging::open(std::size_t bytes) {
  bytes = padded(bytes);
  if (bytes > half_bytes_) {
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    allocate(2 * bytes);
  }
  if (used_ + bytes > half_bytes_) {
    halves_[current_].passed.record(stream_);
    halves_[current_].left = true;
    current_ = 1 - current_;
    if (halves_[current_].left) halves_[current_].passed.synchronize();
    used_ = 0;
  }
  Half& half = halves_[current_];
  Block block(*this, half.host->data() + used_, half.device.as<std::byte>() + used_, bytes);
  used_ += bytes;
  return block;
}

void* Staging::Block::take(std::size_t bytes) {
  KVB_CHECK(used_ + padded(bytes) <= bytes_, "{} + {} of {} staged bytes", used_, bytes, bytes_);
  void* array = host_ + used_;
  used_ += padded(bytes);
  return array;
}

void Staging::Block::send() {
  if (used_ == 0) return;
  check_cuda(cudaMemcpyAsync(device_, host_, used_, cudaMemcpyHostToDevice, staging_.stream_),
             "cudaMemcpyAsync");
}

}  // namespace kvbench
