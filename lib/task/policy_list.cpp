// Definitions of policy_list.hpp.
#include "task/policy_list.hpp"

#include <fstream>

#include "core/error.hpp"

namespace kvbench {
namespace {

// One policy per line; blank lines and lines that begin with # are skipped.
void read_policy_file(const std::string& path, std::vector<std::string>& policies) {
  std::ifstream file(path);
  if (!file) config_error("{}: cannot be read", path);
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with('#')) policies.push_back(line);
  }
}

}  // namespace

void PolicyList::declare(SettingSet& settings) {
  settings.texts("policy", policies, "POLICY",
                 "Policy, as in full, window1024, sink4+1020; repeat it for one row each");
  settings.text("policies_file", file, "File with one policy per line");
  settings.flag("strict", strict, "A policy that evicted nothing is an error");
}

std::vector<std::string> PolicyList::resolve() const {
  std::vector<std::string> all = policies;
  if (!file.empty()) read_policy_file(file, all);
  if (all.empty()) config_error("no policy: give --policy at least once");
  return all;
}

std::vector<ConfiguredPolicy> make_policies(const std::vector<std::string>& texts) {
  std::vector<ConfiguredPolicy> made;
  made.reserve(texts.size());
  for (const std::string& text : texts) made.push_back(make_policy(text));
  return made;
}

void check_streams(std::int64_t streams, const ConfiguredPolicy& configured) {
  if (streams == 1 || !configured.policy->traits().recompute_length) return;
  config_error(
      "--streams {}: policy {} computes a whole window for each token and has nothing to run side "
      "by side; run it by itself with --streams 1",
      streams, configured.text);
}

}  // namespace kvbench
