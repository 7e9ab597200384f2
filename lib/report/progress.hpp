// A progress line on stderr with rate and time left: only on a terminal, at most 10 times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kvbench {

// The line itself, without carriage return: "label  42 % [####......] 1.2k/2.9k tok  350 tok/s
// 0:05". total 0: unknown, no bar and no time left.
std::string progress_line(const std::string& label, const std::string& unit, std::int64_t done,
                          std::int64_t total, double seconds);

class Progress {
 public:
  // Says nothing when quiet or when stderr is no terminal.
  Progress(std::string label, std::string unit, std::int64_t total, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Cheap enough to call per token.
  void update(std::int64_t done);
  // Clears the line; called by the destructor too.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  std::string unit_;
  std::int64_t total_;
  bool shown_;
  bool dirty_ = false;
  Clock::time_point start_;
  Clock::time_point next_draw_;
};

}  // namespace kvbench
