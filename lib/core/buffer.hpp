// Owning block of memory in some memory space, and the meter that counts what was allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace kvbench {

// Counts the bytes of the buffers that were allocated against it. What a record reports as
// allocated is read here, never computed from shapes. Not thread-safe: one owner, one thread.
class MemoryMeter {
 public:
  void add(std::size_t bytes) {
    allocated_bytes_ += static_cast<std::int64_t>(bytes);
    if (allocated_bytes_ > peak_bytes_) peak_bytes_ = allocated_bytes_;
  }
  void subtract(std::size_t bytes) { allocated_bytes_ -= static_cast<std::int64_t>(bytes); }
  std::int64_t allocated_bytes() const { return allocated_bytes_; }
  std::int64_t peak_bytes() const { return peak_bytes_; }
  void reset_peak() { peak_bytes_ = allocated_bytes_; }

 private:
  std::int64_t allocated_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
};

// Move-only owner. The backend that allocated it says how it is freed; the meter, when given,
// must outlive the buffer.
class Buffer {
 public:
  using Free = void (*)(void* data);

  Buffer() = default;
  Buffer(void* data, std::size_t bytes, Free free, MemoryMeter* meter)
      : data_(data), bytes_(bytes), free_(free), meter_(meter) {
    if (meter_ != nullptr) meter_->add(bytes_);
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr) free_(data_);
    if (meter_ != nullptr) meter_->subtract(bytes_);
  }

  template <class T>
  T* as() {
    return static_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(free_, other.free_);
    std::swap(meter_, other.meter_);
  }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Free free_ = nullptr;
  MemoryMeter* meter_ = nullptr;
};

}  // namespace kvbench
