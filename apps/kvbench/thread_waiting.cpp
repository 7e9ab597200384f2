// Definition of thread_waiting.hpp.
#include "apps/kvbench/thread_waiting.hpp"

#include <unistd.h>

#include <cstdlib>
#include <initializer_list>

namespace kvbench {
namespace {

// Longer than the gaps between the parallel regions of one token, far shorter than a time slice.
constexpr const char* kSpins = "5000";

}  // namespace

void shorten_thread_waiting(char** argv) {
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}) {
    if (std::getenv(name) != nullptr) return;
  }
  if (setenv("GOMP_SPINCOUNT", kSpins, 1) == 0) execv("/proc/self/exe", argv);
}

}  // namespace kvbench
