// Limits that a container or a job system sets through control groups, v1 and v2. Paths are
// arguments so that a test can lay out its own: normally /proc/self/cgroup and /sys/fs/cgroup.
#pragma once

#include <filesystem>

namespace kvbench {

// CPUs that the group and its ancestors grant, e.g. 2.5; 0 for no limit.
double cgroup_cpu_quota(const std::filesystem::path& proc_self_cgroup,
                        const std::filesystem::path& cgroup_root);

// Bytes of memory that they grant; 0 for no limit.
double cgroup_memory_limit_bytes(const std::filesystem::path& proc_self_cgroup,
                                 const std::filesystem::path& cgroup_root);

}  // namespace kvbench
