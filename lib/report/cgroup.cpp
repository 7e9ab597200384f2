// Definitions of report/cgroup.hpp; the files are described in the kernel's
// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
#include "report/cgroup.hpp"

#include <algorithm>
#include <fstream>
#include <locale>
#include <string>

namespace kvbench {
namespace {

namespace fs = std::filesystem;

// What one group's own files say, 0 for no limit.
using LimitOf = double (*)(const fs::path& group);

std::ifstream open_classic(const fs::path& path) {
  std::ifstream file(path);
  file.imbue(std::locale::classic());
  return file;
}

// cpu.max holds "max 100000" or "250000 100000".
double cpus_v2(const fs::path& group) {
  std::ifstream file = open_classic(group / "cpu.max");
  double quota_us = 0;
  double period_us = 0;
  return file >> quota_us >> period_us && period_us > 0 ? quota_us / period_us : 0;
}

// Two files; the quota is -1 for none.
double cpus_v1(const fs::path& group) {
  std::ifstream quota_file = open_classic(group / "cpu.cfs_quota_us");
  std::ifstream period_file = open_classic(group / "cpu.cfs_period_us");
  double quota_us = 0;
  double period_us = 0;
  const bool read = (quota_file >> quota_us) && (period_file >> period_us);
  return read && quota_us > 0 && period_us > 0 ? quota_us / period_us : 0;
}

double memory_v2(const fs::path& group) {
  std::ifstream file = open_classic(group / "memory.max");
  double bytes = 0;
  return file >> bytes ? bytes : 0;
}

double memory_v1(const fs::path& group) {
  std::ifstream file = open_classic(group / "memory.limit_in_bytes");
  double bytes = 0;
  // No limit is written as 2^63 less one page.
  return file >> bytes && bytes < 0x1.0p62 ? bytes : 0;
}

double smaller_limit(double left, double right) {
  if (left <= 0 || right <= 0) return std::max(left, right);
  return std::min(left, right);
}

// The smallest limit of a group and all its ancestors up to `root`, each of which binds.
double smallest_limit(const fs::path& root, const std::string& group, LimitOf limit_of) {
  double smallest = limit_of(root);
  fs::path path = root;
  for (const fs::path& part : fs::path(group).relative_path()) {
    // ".." means a group outside of this namespace, whose files cannot be seen from here.
    if (part == "..") break;
    path /= part;
    smallest = smaller_limit(smallest, limit_of(path));
  }
  return smallest;
}

double limit(const fs::path& proc_self_cgroup, const fs::path& root, const std::string& controller,
             LimitOf v1, LimitOf v2) {
  double smallest = 0;
  std::ifstream file(proc_self_cgroup);
  // Lines are "hierarchy:controllers:group"; v2 is hierarchy 0 and names no controllers.
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (line.starts_with("0::")) {
      smallest = smaller_limit(smallest, smallest_limit(root, group, v2));
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      // "cpu,cpuacct" is a folder, and "cpu" normally a link to it.
      const fs::path joined = root / controllers;
      const fs::path folder = fs::is_directory(joined) ? joined : root / controller;
      smallest = smaller_limit(smallest, smallest_limit(folder, group, v1));
    }
  }
  return smallest;
}

}  // namespace

double cgroup_cpu_quota(const fs::path& proc_self_cgroup, const fs::path& cgroup_root) {
  return limit(proc_self_cgroup, cgroup_root, "cpu", cpus_v1, cpus_v2);
}

double cgroup_memory_limit_bytes(const fs::path& proc_self_cgroup, const fs::path& cgroup_root) {
  return limit(proc_self_cgroup, cgroup_root, "memory", memory_v1, memory_v2);
}

}  // namespace kvbench
