// Worker processes of a sweep on one machine, each bound to its own share of the CPUs.
#pragma once

#include <cstddef>
#include <functional>

namespace kvbench {

// CPUs of worker `index` of `workers`, at least 1; the first ones take what is left over.
// ConfigError for more workers than usable_cpus().
int cpus_of_worker(std::size_t index, std::size_t workers);

// Forks `workers` children; child i is bound to its CPUs and ends with the exit code of work(i).
// They get SIGTERM when this process ends before them. Returns when all have ended, with the first
// exit code that is not 0; 128 + signal for a child that a signal ended. Call it before anything
// starts a thread.
int run_workers(std::size_t workers, const std::function<int(std::size_t index)>& work);

}  // namespace kvbench
