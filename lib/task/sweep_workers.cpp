// Definitions of task/sweep_workers.hpp.
#include "task/sweep_workers.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <vector>

#include "core/error.hpp"
#include "report/environment.hpp"

namespace kvbench {
namespace {

constexpr int kMaxCpus = 1 << 16;

struct CpuMask {
  explicit CpuMask() : set(CPU_ALLOC(kMaxCpus)) { CPU_ZERO_S(bytes, set); }
  ~CpuMask() { CPU_FREE(set); }
  CpuMask(const CpuMask&) = delete;
  CpuMask& operator=(const CpuMask&) = delete;

  std::size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  cpu_set_t* set;
};

// From `first`, counted among the CPUs that this process may use, so many.
void bind_to_cpus(int first, int count) {
  CpuMask allowed;
  CpuMask share;
  if (sched_getaffinity(0, allowed.bytes, allowed.set) != 0) return;  // no mask: nothing to divide
  int seen = 0;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (!CPU_ISSET_S(static_cast<std::size_t>(cpu), allowed.bytes, allowed.set)) continue;
    if (seen >= first && seen < first + count) {
      CPU_SET_S(static_cast<std::size_t>(cpu), share.bytes, share.set);
    }
    ++seen;
  }
  if (sched_setaffinity(0, share.bytes, share.set) != 0) {
    device_error("a worker cannot be bound to CPUs {} to {}", first, first + count - 1);
  }
}

[[noreturn]] void run_child(std::size_t index, std::size_t workers, pid_t parent,
                            const std::function<int(std::size_t)>& work) {
  int code = 1;
  try {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);  // it ended before the line above
    int first = 0;
    for (std::size_t i = 0; i < index; ++i) first += cpus_of_worker(i, workers);
    bind_to_cpus(first, cpus_of_worker(index, workers));
    code = work(index);
  } catch (const Error& error) {
    fmt::print(stderr, "kvbench: error: {}\n", error.what());
    code = error.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "kvbench: error: {}\n", error.what());
  }
  std::fflush(nullptr);
  ::_exit(code);
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int cpus_of_worker(std::size_t index, std::size_t workers) {
  const auto usable = static_cast<std::size_t>(usable_cpus());
  if (workers > usable) {
    config_error("--jobs {}: this process may use {} CPUs, and every job needs one", workers,
                 usable);
  }
  return static_cast<int>(usable / workers + (index < usable % workers ? 1 : 0));
}

int run_workers(std::size_t workers, const std::function<int(std::size_t)>& work) {
  cpus_of_worker(0, workers);
  std::fflush(nullptr);  // children must not write what waits here
  const pid_t parent = ::getpid();
  std::vector<pid_t> children;
  for (std::size_t i = 0; i < workers; ++i) {
    const pid_t child = ::fork();
    if (child < 0) {
      for (const pid_t started : children) ::kill(started, SIGTERM);
      device_error("cannot start worker {} of {}", i + 1, workers);
    }
    if (child == 0) run_child(i, workers, parent, work);
    children.push_back(child);
  }
  int exit_code = 0;
  for (const pid_t child : children) {
    const int code = wait_for(child);
    if (exit_code == 0) exit_code = code;
  }
  return exit_code;
}

}  // namespace kvbench
