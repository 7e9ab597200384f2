// Runs one block of a kernel on the host: a fiber per thread, barriers, warp collectives, shared
// memory. Between two barriers the threads run in an order that tests choose: a result that
// depends on it is a race. Shared memory is separate heap blocks, filled with NaN, so that
// AddressSanitizer sees each array's end and an unwritten element shows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>
#include <vector>

namespace kvbench::emulation {

// One launch, with everything it needs to run later.
struct LaunchRecord {
  const void* kernel = nullptr;
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  std::function<void()> body;         // runs the kernel as the current thread
  std::vector<std::uintptr_t> words;  // the arguments' 8-byte words: those that may be pointers

  void add_argument(const void* argument, std::size_t bytes);
};

// In which order the threads of a block run between two barriers.
enum class ThreadOrder : std::uint8_t { ascending, descending, shuffled };
void set_thread_order(ThreadOrder order);

// Runs all blocks of the launch. Returns what went wrong, or an empty string.
std::string run_launch(const LaunchRecord& launch);

// ---- called by the kernel's threads ----

void block_barrier(const std::source_location& site);

struct ExchangeResult {
  std::uint64_t value;  // what the source lane posted
  unsigned votes;       // lanes that posted something other than zero
};
// Waits for all lanes of `mask` to come to this call. A lane outside the mask must not call it.
ExchangeResult warp_exchange(unsigned mask, std::uint64_t value, unsigned source_lane,
                             const std::source_location& site);
// Waits for all lanes of the warp; then `complete` sees what each of them gave, and may change it.
void warp_together(void* lane, void (*complete)(void* const* lanes),
                   const std::source_location& site);
unsigned lane_index();

// A copy of 16 bytes from `from`, or of zeroes where it is null, that arrives when the calling
// thread waits for its copies.
void begin_copy(void* to, const void* from);
void finish_copies();

// The block's `index`-th shared array; all threads must ask for the same arrays in the same order.
void* shared_array(std::size_t index, std::size_t bytes);

}  // namespace kvbench::emulation
