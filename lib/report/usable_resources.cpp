// usable_cpus() and usable_memory_bytes() of report/environment.hpp. The size of the host is of no
// use inside a container: threads beyond the quota are stopped by the kernel in the middle of
// parallel loops, and memory beyond the limit ends the process.
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <memory>

#include "report/cgroup.hpp"
#include "report/environment.hpp"

namespace kvbench {
namespace {

constexpr const char* kSelfCgroup = "/proc/self/cgroup";
constexpr const char* kCgroupRoot = "/sys/fs/cgroup";

int affinity_cpus() {
  // A fixed cpu_set_t ends at 1024 CPUs; the kernel answers EINVAL until the set is large enough.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(cpus), [](cpu_set_t* allocated) { CPU_FREE(allocated); });
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    if (sched_getaffinity(0, bytes, set.get()) == 0) return CPU_COUNT_S(bytes, set.get());
    if (errno != EINVAL) break;
  }
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

int usable_cpus() {
  int cpus = std::max(1, affinity_cpus());
  const double quota = cgroup_cpu_quota(kSelfCgroup, kCgroupRoot);
  if (quota > 0) cpus = std::min(cpus, std::max(1, static_cast<int>(std::floor(quota))));
  return cpus;
}

std::int64_t machine_memory_bytes() {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

std::int64_t usable_memory_bytes() {
  std::int64_t bytes = machine_memory_bytes();
  const double group_limit = cgroup_memory_limit_bytes(kSelfCgroup, kCgroupRoot);
  if (group_limit > 0 && group_limit < static_cast<double>(bytes)) {
    bytes = static_cast<std::int64_t>(group_limit);
  }
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY &&
      address_space.rlim_cur < static_cast<rlim_t>(bytes)) {
    bytes = static_cast<std::int64_t>(address_space.rlim_cur);
  }
  return bytes;
}

}  // namespace kvbench
