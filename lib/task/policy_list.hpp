// The settings that name the policies of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/setting_set.hpp"
#include "policy/registry.hpp"

namespace kvbench {

struct PolicyList {
  std::vector<std::string> policies;
  std::string file;
  bool strict = false;  // a policy that evicted nothing is an error

  // policy, policies_file, strict.
  void declare(SettingSet& settings);
  // The policies named, then those of the file. ConfigError when there are none.
  std::vector<std::string> resolve() const;
};

// Each made once, so that a bad one is known before anything is loaded.
std::vector<ConfiguredPolicy> make_policies(const std::vector<std::string>& texts);

// ConfigError for a policy that cannot run in several streams.
void check_streams(std::int64_t streams, const ConfiguredPolicy& configured);

}  // namespace kvbench
