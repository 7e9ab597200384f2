// Definitions of interrupt.hpp. The handler does nothing but set flags, write(2) and _exit(2).
#include "apps/kvbench/interrupt.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>

namespace kvbench {
namespace {

std::array<char, 2048> farewell_text;
std::atomic<std::size_t> farewell_size{0};
std::atomic<bool> guarded{false};
std::atomic<int> waiting{0};

[[noreturn]] void leave(int signal) {
  // Nothing can be done about a terminal that is gone.
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, farewell_text.data(), farewell_size.load());
  ::_exit(128 + signal);
}

void on_signal(int signal) {
  if (guarded.load()) {
    waiting.store(signal);
  } else {
    leave(signal);
  }
}

}  // namespace

void catch_interrupts(std::string_view farewell) {
  const std::size_t size = std::min(farewell.size(), farewell_text.size());
  std::copy_n(farewell.begin(), size, farewell_text.begin());
  farewell_size.store(size);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

void guard_from_interrupts(bool begins) {
  guarded.store(begins);
  if (!begins && waiting.load() != 0) leave(waiting.load());
}

}  // namespace kvbench
