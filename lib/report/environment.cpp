// Definitions of report/environment.hpp, from /proc and the compiler.
#include "report/environment.hpp"

#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <locale>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

namespace kvbench {
namespace {

// The value of the first line "key<blanks>: value" of a /proc file, or "".
std::string proc_value(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    if (line.find_first_not_of(" \t", key.size()) != colon) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

std::string simd_sets() {
  constexpr std::array<std::string_view, 8> kSets{
      "avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "asimd", "sve", "sve2"};
  // x86 says "flags", Arm says "Features".
  std::istringstream flags(proc_value("/proc/cpuinfo", "flags") + " " +
                           proc_value("/proc/cpuinfo", "Features"));
  std::string found;
  for (std::string flag; flags >> flag;) {
    for (const std::string_view set : kSets) {
      if (flag == set) found += (found.empty() ? "" : " ") + flag;
    }
  }
  return found.empty() ? "baseline" : found;
}

std::string operating_system() {
  utsname names{};
  if (uname(&names) != 0) return "unknown";
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

}  // namespace

Environment read_environment() {
  Environment environment;
  environment.kvbench_version = KVBENCH_VERSION;
  environment.git_commit = KVBENCH_GIT_COMMIT;
  environment.compiler = compiler();
  environment.build_type = KVBENCH_BUILD_TYPE;
  environment.os = operating_system();
  const std::string model = proc_value("/proc/cpuinfo", "model name");
  environment.cpu_model = model.empty() ? "unknown" : model;
  environment.isa = simd_sets();
  environment.cpus_online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  environment.cpus_usable = usable_cpus();
  environment.memory_bytes = machine_memory_bytes();
  environment.memory_usable_bytes = usable_memory_bytes();
  return environment;
}

nlohmann::ordered_json environment_to_json(const Environment& environment) {
  return {{"kvbench_version", environment.kvbench_version},
          {"git_commit", environment.git_commit},
          {"compiler", environment.compiler},
          {"build_type", environment.build_type},
          {"os", environment.os},
          {"cpu_model", environment.cpu_model},
          {"isa", environment.isa},
          {"cpus_online", environment.cpus_online},
          {"cpus_usable", environment.cpus_usable},
          {"memory_bytes", environment.memory_bytes},
          {"memory_usable_bytes", environment.memory_usable_bytes}};
}

std::int64_t peak_rss_bytes() {
  std::istringstream value(proc_value("/proc/self/status", "VmHWM"));
  std::int64_t kibibytes = 0;
  value.imbue(std::locale::classic());
  return value >> kibibytes ? kibibytes * 1024 : 0;
}

bool reset_peak_rss() {
  // Writing 5 resets VmHWM to the present size (proc(5), /proc/pid/clear_refs).
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  file.flush();
  return file.good();
}

}  // namespace kvbench
