// What the machine and the build were, for the record of a run, and what of the machine this
// process may use.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace kvbench {

struct Environment {
  std::string kvbench_version;
  std::string git_commit;  // at configure time, "-dirty" appended for local changes; or "unknown"
  std::string compiler;
  std::string build_type;
  std::string os;
  std::string cpu_model;
  std::string isa;      // SIMD sets of the CPU that matter here, e.g. "avx2 avx512f amx_bf16"
  int cpus_online = 0;  // of the machine
  int cpus_usable = 0;  // usable_cpus()
  std::int64_t memory_bytes = 0;         // machine_memory_bytes()
  std::int64_t memory_usable_bytes = 0;  // usable_memory_bytes()
};

Environment read_environment();
nlohmann::ordered_json environment_to_json(const Environment& environment);

// Processors this process can really use: the smaller of its affinity mask and its cgroup's CPU
// quota (v1 or v2), at least 1. A quota of 2.5 CPUs counts as 2: a third thread would be stopped
// for half of each period, and every parallel loop would wait for it.
int usable_cpus();

std::int64_t machine_memory_bytes();
// What this process may use of it: the smallest of the machine's memory, its cgroup's limit and
// its address-space limit (ulimit -v). An estimate above this can be refused before allocating.
std::int64_t usable_memory_bytes();

// Highest resident size of this process so far (VmHWM), 0 where the kernel does not tell.
std::int64_t peak_rss_bytes();
// Restarts the count of peak_rss_bytes; false where the kernel does not allow it.
bool reset_peak_rss();

}  // namespace kvbench
