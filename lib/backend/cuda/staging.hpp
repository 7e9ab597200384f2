// Small host arrays on their way to the device (ids, pointers of cache rows, visible ranges):
// written into pinned memory and copied while the host goes on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/cuda/cuda_handles.hpp"
#include "core/buffer.hpp"

namespace kvbench {

// Two halves take turns. A half is filled again only after the stream has passed the work that
// read it, so that neither its pinned nor its device side changes too early.
class Staging {
 public:
  explicit Staging(cudaStream_t stream);

  // The arrays of one operation. Add all, fill them, send, then queue the work that reads them.
  class Block {
   public:
    // Host memory to fill, [n].
    template <class T>
    T* add(std::int64_t n) {
      return static_cast<T*>(take(static_cast<std::size_t>(n) * sizeof(T)));
    }
    // Where a filled array lies on the device after send().
    template <class T>
    T* on_device(const T* host) const {
      const auto offset = reinterpret_cast<const std::byte*>(host) - host_;
      return reinterpret_cast<T*>(device_ + offset);
    }
    void send();
    // The first array's bytes to memory of the caller's, in place of the block's own.
    void send_to(void* destination, std::size_t bytes);

   private:
    friend class Staging;
    Block(Staging& staging, std::byte* host, std::byte* device, std::size_t bytes)
        : staging_(staging), host_(host), device_(device), bytes_(bytes) {}
    void* take(std::size_t bytes);

    Staging& staging_;
    std::byte* host_;
    std::byte* device_;
    std::size_t bytes_;
    std::size_t used_ = 0;
  };

  // Room for arrays of `bytes` in all; kArrayPadding more for each array.
  static constexpr std::size_t kArrayPadding = 16;
  Block open(std::size_t bytes);
  // What is staged from here on is as much as since the last call, or so: it should find room in
  // one half, since the change to the other waits.
  void begin_step();

 private:
  struct Half {
    std::unique_ptr<PinnedMemory> host;
    Buffer device;
    CudaEvent passed;  // recorded when the half was left
    bool left = false;
  };
  void allocate(std::size_t half_bytes);
  void change_halves();

  cudaStream_t stream_;
  std::array<Half, 2> halves_;
  std::size_t half_bytes_ = 0;
  std::size_t current_ = 0;
  std::size_t used_ = 0;        // bytes of the current half
  std::size_t step_bytes_ = 0;  // opened since begin_step()
};

}  // namespace kvbench
