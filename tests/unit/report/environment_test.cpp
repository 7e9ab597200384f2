// What the machine is and what of it may be used; the progress line.
#include "report/environment.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/cgroup.hpp"
#include "report/progress.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

// AddressSanitizer needs terabytes of address space, so it cannot live under a limit.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

TEST_CASE("cpus: the quota of a v2 group and of its ancestors") {
  const test::TempDir folder;
  const auto self = folder.write("self", "0::/jobs/one\n");
  const auto root = folder.path() / "cgroup";
  CHECK(cgroup_cpu_quota(self, root) == 0);
  folder.write("cgroup/jobs/one/cpu.max", "max 100000\n");
  CHECK(cgroup_cpu_quota(self, root) == 0);
  folder.write("cgroup/jobs/one/cpu.max", "250000 100000\n");
  CHECK(cgroup_cpu_quota(self, root) == 2.5);
  folder.write("cgroup/jobs/cpu.max", "150000 100000\n");
  CHECK(cgroup_cpu_quota(self, root) == 1.5);
}

TEST_CASE("cpus: a container sees its own group as the root") {
  const test::TempDir folder;
  const auto root = folder.path() / "cgroup";
  folder.write("cgroup/cpu.max", "200000 100000\n");
  for (const char* line : {"0::/\n", "0::/../../system.slice\n", "0::/docker/not-visible\n"}) {
    CAPTURE(line);
    CHECK(cgroup_cpu_quota(folder.write("self", line), root) == 2);
  }
}

TEST_CASE("cpus: the quota of a v1 group") {
  const test::TempDir folder;
  const auto root = folder.path() / "cgroup";
  const auto self = folder.write("self", "5:memory:/m\n4:cpu,cpuacct:/job\n3:cpuset:/s\n0::/\n");
  folder.write("cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  folder.write("cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_cpu_quota(self, root) == 0);
  folder.write("cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "400000\n");
  folder.write("cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_cpu_quota(self, root) == 4);
  const auto plain = folder.write("self", "4:cpuacct,cpu:/\n");
  folder.write("cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  folder.write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_cpu_quota(plain, root) == 3);
}

TEST_CASE("memory: the limits of groups, v1 and v2") {
  const test::TempDir folder;
  const auto root = folder.path() / "cgroup";
  const auto v2 = folder.write("v2", "0::/jobs/one\n");
  CHECK(cgroup_memory_limit_bytes(v2, root) == 0);
  folder.write("cgroup/jobs/one/memory.max", "max\n");
  CHECK(cgroup_memory_limit_bytes(v2, root) == 0);
  folder.write("cgroup/jobs/memory.max", "2147483648\n");
  CHECK(cgroup_memory_limit_bytes(v2, root) == 2147483648.0);

  const auto v1 = folder.write("v1", "9:memory:/job\n4:cpu,cpuacct:/\n");
  folder.write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(cgroup_memory_limit_bytes(v1, root) == 0);
  folder.write("cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  CHECK(cgroup_memory_limit_bytes(v1, root) == 1073741824.0);
}

TEST_CASE("memory: the address-space limit binds" * doctest::skip(kAddressSanitizer)) {
  CHECK(usable_memory_bytes() <= machine_memory_bytes());
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  const rlimit lower{1U << 30, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_AS, &lower) == 0);
  const std::int64_t usable = usable_memory_bytes();
  setrlimit(RLIMIT_AS, &before);
  CHECK(usable <= std::int64_t{1} << 30);
}

TEST_CASE("cpus: the affinity mask binds") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  CHECK(usable_cpus() >= 1);
  CHECK(usable_cpus() <= CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before) && CPU_COUNT(&one) == 0) CPU_SET(cpu, &one);
  }
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  CHECK(usable_cpus() == 1);
  sched_setaffinity(0, sizeof(before), &before);
}

TEST_CASE("environment: every field says something") {
  const auto json = environment_to_json(read_environment());
  for (const auto& [name, value] : json.items()) {
    const std::string key = name;  // CAPTURE cannot hold a structured binding
    CAPTURE(key);
    if (value.is_string()) CHECK(value != "");
    if (value.is_number()) CHECK(value > 0);
  }
  CHECK(json["cpus_usable"] <= json["cpus_online"]);
}

TEST_CASE("environment: peak memory follows an allocation and can be restarted") {
  const std::int64_t before = peak_rss_bytes();
  REQUIRE(before > 0);
  constexpr std::size_t kBytes = 256 << 20;
  {
    std::vector<char> block(kBytes);
    for (std::size_t at = 0; at < kBytes; at += 1024) block[at] = 1;
    CHECK(block[kBytes - 1024] == 1);
  }
  const std::int64_t peak = peak_rss_bytes();
  CHECK(peak >= static_cast<std::int64_t>(kBytes));
  if (reset_peak_rss()) CHECK(peak_rss_bytes() <= peak);
}

TEST_CASE("progress: share, rate and time left") {
  CHECK(progress_line("full", "tok", 500, 2000, 10) ==
        "full  25 % [######..................] 500/2,000 tok  50.0 tok/s  0:30 left");
  CHECK(progress_line("full", "tok", 0, 2000, 0) ==
        "full   0 % [........................] 0/2,000 tok");
  CHECK(progress_line("full", "tok", 3, 0, 2) == "full  3 tok  1.5 tok/s");
  CHECK(progress_line("x", "tok", 1, 7201, 1).ends_with("2:00:00 left"));
  // More done than announced is no reason to overflow the bar.
  CHECK(progress_line("x", "tok", 30, 20, 1).find("100 % [########################]") !=
        std::string::npos);
}

}  // namespace
}  // namespace kvbench
