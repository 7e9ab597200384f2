// Definitions of policy_list.hpp.
#include "task/policy_list.hpp"

#include <algorithm>
#include <iterator>

#include "core/error.hpp"
#include "io/line_list.hpp"

namespace kvbench {
void PolicyList::declare(SettingSet& settings) {
  settings.texts("policy", policies, "POLICY",
                 "Policy, as in full, window1024, sink4+1020; repeat it for one row each");
  settings.text("policies_file", file, "File with one policy per line");
  settings.flag("strict", strict, "A policy that evicted nothing is an error");
}

std::vector<std::string> PolicyList::resolve() const {
  std::vector<std::string> all = policies;
  if (!file.empty()) std::ranges::copy(read_line_list(file), std::back_inserter(all));
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
