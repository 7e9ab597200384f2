// The scheduler of one block, and the collectives that its threads wait in.
#include "tests/cuda_emulation/block.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "tests/cuda_emulation/fiber.hpp"

// The built-in variables of cuda_runtime.h.
#include <cuda_runtime.h>

namespace kvbench::emulation {
namespace {

constexpr unsigned kWarpSize = 32;

enum class State : std::uint8_t { ready, at_barrier, in_exchange, ended };

constexpr std::size_t kCopyBytes = 16;

struct BackgroundCopy {
  void* to;
  const void* from;  // null: zeroes
};

struct Thread {
  State state = State::ready;
  uint3 index{};
  std::source_location site;  // of the collective it waits in
  // One exchange.
  unsigned mask = 0;
  std::uint64_t posted = 0;
  unsigned source_lane = 0;
  void (*complete)(void* const* lanes) = nullptr;  // of what the lanes posted
  ExchangeResult result{};
  std::vector<BackgroundCopy> copies;  // begun, not waited for
};

std::string describe(const std::source_location& site) {
  const std::string path = site.file_name();
  return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), site.line());
}

bool same_site(const std::source_location& a, const std::source_location& b) {
  if (a.line() != b.line() || a.column() != b.column()) return false;
  return a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0;
}

class BlockRunner {
 public:
  // Runs one block; returns what went wrong, or an empty string.
  std::string run(const LaunchRecord& launch);

  void barrier(const std::source_location& site);
  ExchangeResult exchange(unsigned mask, std::uint64_t value, unsigned source_lane,
                          const std::source_location& site,
                          void (*complete)(void* const*) = nullptr);
  void* shared(std::size_t index, std::size_t bytes);
  void begin_copy(const BackgroundCopy& copy);
  void finish_copies();
  unsigned lane() const { return current_ % kWarpSize; }

  ThreadOrder order = ThreadOrder::ascending;

 private:
  struct Entry {
    BlockRunner* runner;
    std::size_t thread;
  };

  static void thread_body(void* entry);
  void prepare(const LaunchRecord& launch);
  void start_fibers(std::size_t n);
  void order_threads();
  // Runs every ready thread once; false when none was ready.
  bool run_ready();
  bool release_barrier();
  void try_exchange(std::size_t thread);
  std::string stuck() const;
  void wait() { Fiber::yield(); }

  const LaunchRecord* launch_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Entry> entries_;
  std::vector<Thread> threads_;
  std::vector<std::size_t> sequence_;  // thread numbers in running order
  std::size_t current_ = 0;
  std::size_t n_ended_ = 0;
  std::mt19937 generator_{12345};
  std::vector<std::vector<std::byte>> shared_;
  std::size_t shared_used_ = 0;
  std::string fault_;
};

void BlockRunner::thread_body(void* argument) {
  const Entry entry = *static_cast<Entry*>(argument);
  // A fiber serves one block after another, so that its stack is set up once.
  while (true) {
    entry.runner->launch_->body();
    entry.runner->threads_[entry.thread].state = State::ended;
    ++entry.runner->n_ended_;
    Fiber::yield();
  }
}

void BlockRunner::start_fibers(std::size_t n) {
  const std::size_t first = fibers_.size();
  if (first >= n) return;
  entries_.reserve(1024);
  for (std::size_t i = first; i < n; ++i) {
    fibers_.push_back(std::make_unique<Fiber>());
    entries_.push_back({this, i});
    fibers_[i]->start(thread_body, &entries_[i]);
  }
}

void BlockRunner::prepare(const LaunchRecord& launch) {
  launch_ = &launch;
  const dim3 block = launch.block;
  const std::size_t n = std::size_t{block.x} * block.y * block.z;
  start_fibers(n);
  threads_.assign(n, Thread{});
  for (std::size_t i = 0; i < n; ++i) {
    threads_[i].index = {static_cast<unsigned>(i % block.x),
                         static_cast<unsigned>(i / block.x % block.y),
                         static_cast<unsigned>(i / block.x / block.y)};
  }
  sequence_.resize(n);
  std::iota(sequence_.begin(), sequence_.end(), 0);
  order_threads();
  n_ended_ = 0;
  shared_.clear();
  shared_used_ = 0;
  fault_.clear();
}

void BlockRunner::order_threads() {
  if (order == ThreadOrder::shuffled) {
    std::shuffle(sequence_.begin(), sequence_.end(), generator_);
  } else if (order == ThreadOrder::descending) {
    std::sort(sequence_.begin(), sequence_.end(), std::greater<>());
  }
}

std::string BlockRunner::run(const LaunchRecord& launch) {
  prepare(launch);
  while (n_ended_ < threads_.size() && fault_.empty()) {
    if (run_ready() || !fault_.empty()) continue;
    if (!release_barrier()) fault_ = stuck();
  }
  if (!fault_.empty()) {
    // The stacks hold half-run kernels: start afresh.
    fibers_.clear();
    entries_.clear();
  }
  return fault_;
}

bool BlockRunner::run_ready() {
  bool any = false;
  for (const std::size_t i : sequence_) {
    if (threads_[i].state != State::ready) continue;
    any = true;
    current_ = i;
    threadIdx = threads_[i].index;
    fibers_[i]->resume();
    if (!fault_.empty()) return true;
  }
  return any;
}

bool BlockRunner::release_barrier() {
  const Thread& first = threads_[0];
  for (const Thread& thread : threads_) {
    if (thread.state != State::at_barrier || !same_site(thread.site, first.site)) return false;
  }
  for (Thread& thread : threads_) thread.state = State::ready;
  order_threads();
  return true;
}

void BlockRunner::barrier(const std::source_location& site) {
  threads_[current_].state = State::at_barrier;
  threads_[current_].site = site;
  wait();
}

ExchangeResult BlockRunner::exchange(unsigned mask, std::uint64_t value, unsigned source_lane,
                                     const std::source_location& site,
                                     void (*complete)(void* const*)) {
  const std::size_t me = current_;
  const std::size_t first = me / kWarpSize * kWarpSize;
  const std::size_t lanes = std::min<std::size_t>(kWarpSize, threads_.size() - first);
  // Lanes that the block does not have are not waited for, as on hardware.
  if (lanes < kWarpSize) mask &= (1u << lanes) - 1;
  Thread& thread = threads_[me];
  thread.state = State::in_exchange;
  thread.site = site;
  thread.mask = mask;
  thread.posted = value;
  thread.source_lane = source_lane;
  thread.complete = complete;
  if (complete != nullptr && lanes < kWarpSize) {
    fault_ = fmt::format("the warp collective at {} needs a whole warp, this one has {} lanes",
                         describe(site), lanes);
  } else if ((mask >> lane() & 1u) == 0) {
    fault_ = fmt::format("lane {} called the warp collective at {} with a mask without itself",
                         lane(), describe(site));
  } else {
    try_exchange(me);
  }
  wait();
  return threads_[me].result;
}

// Completes the exchange that `thread` waits in, if it was the last to come.
void BlockRunner::try_exchange(std::size_t thread) {
  const Thread& last = threads_[thread];
  const std::size_t first = thread / kWarpSize * kWarpSize;
  unsigned votes = 0;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if ((last.mask >> lane & 1u) == 0) continue;
    const Thread& other = threads_[first + lane];
    if (other.state != State::in_exchange || other.mask != last.mask ||
        !same_site(other.site, last.site)) {
      return;
    }
    if (other.posted != 0) votes |= 1u << lane;
  }
  const unsigned mask = last.mask;
  if (last.complete != nullptr) {
    void* lanes[kWarpSize];
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
      lanes[lane] = reinterpret_cast<void*>(threads_[first + lane].posted);
    }
    last.complete(lanes);
  }
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1u) == 0) continue;
    Thread& receiver = threads_[first + lane];
    const unsigned source = receiver.source_lane % kWarpSize;
    // Reading a lane that takes no part is undefined; NaN makes it show.
    receiver.result.value = (mask >> source & 1u) != 0 ? threads_[first + source].posted : ~0ull;
    receiver.result.votes = votes;
    receiver.state = State::ready;
  }
}

// Why nobody can go on: names one waiting place and one thread that is not there.
std::string BlockRunner::stuck() const {
  const auto waiting = std::find_if(threads_.begin(), threads_.end(), [](const Thread& thread) {
    return thread.state != State::ended;
  });
  const auto other = std::find_if(threads_.begin(), threads_.end(), [&](const Thread& thread) {
    return thread.state != waiting->state || !same_site(thread.site, waiting->site);
  });
  const auto number = [&](auto thread) { return thread - threads_.begin(); };
  std::string where = "all others too";
  if (other != threads_.end()) {
    where = other->state == State::ended
                ? fmt::format("thread {} has ended", number(other))
                : fmt::format("thread {} waits at {}", number(other), describe(other->site));
  }
  return fmt::format("divergent {} in block ({}, {}, {}): thread {} waits at {}, {}",
                     waiting->state == State::at_barrier ? "barrier" : "warp collective",
                     blockIdx.x, blockIdx.y, blockIdx.z, number(waiting), describe(waiting->site),
                     where);
}

void* BlockRunner::shared(std::size_t index, std::size_t bytes) {
  if (index < shared_.size() && shared_[index].size() == bytes) return shared_[index].data();
  if (index == shared_.size()) {
    constexpr std::size_t kAlignment = 16;
    shared_used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (shared_used_ <= launch_->shared_bytes) {
      return shared_.emplace_back(bytes, std::byte{0xFF}).data();
    }
    fault_ = fmt::format("shared arrays need {} bytes, the launch gave {}", shared_used_,
                         launch_->shared_bytes);
  } else {
    fault_ = "the threads of a block ask for different shared arrays";
  }
  wait();
  return nullptr;
}

void BlockRunner::begin_copy(const BackgroundCopy& copy) {
  const auto misplaced = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % kCopyBytes != 0;
  };
  if (misplaced(copy.to) || misplaced(copy.from)) {
    fault_ = "a background copy whose ends are not aligned to 16 bytes";
    wait();
  }
  threads_[current_].copies.push_back(copy);
}

void BlockRunner::finish_copies() {
  for (const BackgroundCopy& copy : threads_[current_].copies) {
    if (copy.from == nullptr) {
      std::memset(copy.to, 0, kCopyBytes);
    } else {
      std::memcpy(copy.to, copy.from, kCopyBytes);
    }
  }
  threads_[current_].copies.clear();
}

BlockRunner& runner() {
  static BlockRunner instance;
  return instance;
}

}  // namespace

void LaunchRecord::add_argument(const void* argument, std::size_t bytes) {
  for (std::size_t i = 0; i + sizeof(std::uintptr_t) <= bytes; i += sizeof(std::uintptr_t)) {
    std::uintptr_t word;
    std::memcpy(&word, static_cast<const char*>(argument) + i, sizeof(word));
    words.push_back(word);
  }
}

void set_thread_order(ThreadOrder order) {
  runner().order = order;
}

std::string run_launch(const LaunchRecord& launch) {
  blockDim = launch.block;
  gridDim = launch.grid;
  for (unsigned z = 0; z < launch.grid.z; ++z) {
    for (unsigned y = 0; y < launch.grid.y; ++y) {
      for (unsigned x = 0; x < launch.grid.x; ++x) {
        blockIdx = {x, y, z};
        std::string fault = runner().run(launch);
        if (!fault.empty()) return fault;
      }
    }
  }
  return {};
}

void block_barrier(const std::source_location& site) {
  runner().barrier(site);
}

ExchangeResult warp_exchange(unsigned mask, std::uint64_t value, unsigned source_lane,
                             const std::source_location& site) {
  return runner().exchange(mask, value, source_lane, site);
}

void warp_together(void* lane, void (*complete)(void* const* lanes),
                   const std::source_location& site) {
  runner().exchange(~0u, reinterpret_cast<std::uint64_t>(lane), 0, site, complete);
}

void begin_copy(void* to, const void* from) {
  runner().begin_copy({to, from});
}

void finish_copies() {
  runner().finish_copies();
}

unsigned lane_index() {
  return runner().lane();
}

void* shared_array(std::size_t index, std::size_t bytes) {
  return runner().shared(index, bytes);
}

}  // namespace kvbench::emulation
