// usable_cpus() of report/environment.hpp. The number of CPUs of the host is of no use inside a
// container: threads beyond the quota are stopped by the kernel in the middle of parallel loops.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <locale>
#include <memory>
#include <string>

#include "report/environment.hpp"

namespace kvbench {
namespace {

namespace fs = std::filesystem;

std::ifstream open_classic(const fs::path& path) {
  std::ifstream file(path);
  file.imbue(std::locale::classic());
  return file;
}

// Quota of one v2 group in CPUs, 0 for none: cpu.max holds "max 100000" or "250000 100000".
double quota_v2(const fs::path& group) {
  std::ifstream file = open_classic(group / "cpu.max");
  double quota_us = 0;
  double period_us = 0;
  return file >> quota_us >> period_us && period_us > 0 ? quota_us / period_us : 0;
}

// The same of one v1 group, whose quota is -1 for none.
double quota_v1(const fs::path& group) {
  std::ifstream quota_file = open_classic(group / "cpu.cfs_quota_us");
  std::ifstream period_file = open_classic(group / "cpu.cfs_period_us");
  double quota_us = 0;
  double period_us = 0;
  const bool read = (quota_file >> quota_us) && (period_file >> period_us);
  return read && quota_us > 0 && period_us > 0 ? quota_us / period_us : 0;
}

// The smallest quota of a group and all its ancestors up to `root`, each of which binds.
double smallest_quota(const fs::path& root, const std::string& group,
                      double (*quota_of)(const fs::path&)) {
  double smallest = quota_of(root);
  fs::path path = root;
  for (const fs::path& part : fs::path(group).relative_path()) {
    // ".." means a group outside of this namespace, whose files cannot be seen from here.
    if (part == "..") break;
    path /= part;
    const double quota = quota_of(path);
    if (quota > 0) smallest = smallest > 0 ? std::min(smallest, quota) : quota;
  }
  return smallest;
}

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

bool lists_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

double cgroup_cpu_quota(const fs::path& proc_self_cgroup, const fs::path& cgroup_root) {
  double smallest = 0;
  std::ifstream file(proc_self_cgroup);
  // Lines are "hierarchy:controllers:group"; v2 is hierarchy 0 and names no controllers.
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    double quota = 0;
    if (line.starts_with("0::")) {
      quota = smallest_quota(cgroup_root, group, quota_v2);
    } else if (lists_cpu(controllers)) {
      const fs::path joined = cgroup_root / controllers;  // "cpu,cpuacct", with "cpu" a link to it
      quota =
          smallest_quota(fs::is_directory(joined) ? joined : cgroup_root / "cpu", group, quota_v1);
    }
    if (quota > 0) smallest = smallest > 0 ? std::min(smallest, quota) : quota;
  }
  return smallest;
}

int usable_cpus() {
  int cpus = std::max(1, affinity_cpus());
  const double quota = cgroup_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  if (quota > 0) cpus = std::min(cpus, std::max(1, static_cast<int>(std::floor(quota))));
  return cpus;
}

}  // namespace kvbench
