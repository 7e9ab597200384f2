// Processor time of the calling thread: what work took, however busy the machine is.
#pragma once

#include <ctime>

namespace kvbench::test {

inline double thread_cpu_seconds() {
  std::timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace kvbench::test
