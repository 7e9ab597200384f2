// What the machine and the build were, for the record of a run, and what of the machine this
// process may use.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <string>

namespace kvbench {

struct Environment {
  std::string kvbench_version;
  std::string git_commit;  // at configure time, "-dirty" appended for local changes; or "unknown"
  std::string compiler;
  std::string build_type;
  std::string os;
  std::string cpu_model;
  std::string isa;      // the widest of the SIMD sets that matter here, e.g. "avx512 amx-bf16"
  int cpus_online = 0;  // of the machine
  int cpus_usable = 0;  // usable_cpus()
  std::int64_t memory_bytes = 0;  // of the machine, or the cgroup limit where it is lower
};

Environment read_environment();
nlohmann::json environment_to_json(const Environment& environment);

// Processors this process can really use: the smaller of its affinity mask and its cgroup's CPU
// quota (v1 or v2, rounded up), at least 1.
int usable_cpus();

// The quota of `cgroup_line` files alone, for a /proc and a /sys/fs/cgroup laid out as the
// kernel's: CPUs, rounded up, or 0 for no quota.
int cgroup_cpu_quota(const std::filesystem::path& proc_self_cgroup,
                     const std::filesystem::path& cgroup_root);

// Highest resident size of this process so far (VmHWM), 0 where the kernel does not tell.
std::int64_t peak_rss_bytes();
// Restarts the count of peak_rss_bytes; false where the kernel does not allow it.
bool reset_peak_rss();

}  // namespace kvbench
