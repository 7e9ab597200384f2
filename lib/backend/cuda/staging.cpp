// Staging: blocks out of two halves that take turns.
#include "backend/cuda/staging.hpp"

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/step_capture.hpp"

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
  flush_captures();  // recorded copies read the old halves
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
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

void Staging::change_halves() {
  flush_captures();  // a half is left when all that reads it is queued
  halves_[current_].passed.record(stream_);
  halves_[current_].left = true;
  current_ = 1 - current_;
  if (halves_[current_].left) halves_[current_].passed.synchronize();
  used_ = 0;
}

void Staging::begin_step() {
  if (used_ + step_bytes_ > half_bytes_) change_halves();
  step_bytes_ = 0;
}

Staging::Block Staging::open(std::size_t bytes) {
  bytes = padded(bytes);
  if (bytes > half_bytes_) allocate(2 * bytes);
  if (used_ + bytes > half_bytes_) change_halves();
  step_bytes_ += bytes;
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
  if (used_ > 0) send_to(device_, used_);
}

void Staging::Block::send_to(void* destination, std::size_t bytes) {
  check_cuda(cudaMemcpyAsync(destination, host_, bytes, cudaMemcpyHostToDevice, staging_.stream_),
             "cudaMemcpyAsync");
}

}  // namespace kvbench
