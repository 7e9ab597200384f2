// Wall time of the parts of a run.
#pragma once

#include <chrono>

namespace kvbench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What `work` returns; `seconds` is what it took.
template <class Work>
auto timed(double& seconds, const Work& work) {
  const auto start = Clock::now();
  auto result = work();
  seconds = seconds_since(start);
  return result;
}

}  // namespace kvbench
