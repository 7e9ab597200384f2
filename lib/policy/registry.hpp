// The eviction policies of this build, by name.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/policy_spec.hpp"
#include "policy/eviction_policy.hpp"
#include "policy/policy_options.hpp"
#include "policy/scorer.hpp"

namespace kvbench {

// A row of the registry; each policy's file defines its own.
struct PolicyInfo {
  std::string_view name;
  std::string_view usage;    // the usual way to write it: "sink4+1020"
  std::string_view summary;  // one line
  std::string_view source;   // paper and section, or what it is for
  std::span<const PolicyOption> options;
  std::unique_ptr<EvictionPolicy> (*make)(const PolicyOptions& options);  // null: see make_over
  // For policies that keep the best-rated entries: the rating alone, so that others can build on
  // it.
  std::unique_ptr<Scorer> (*make_scorer)(const PolicyOptions& options) = nullptr;
  // For policies over any scorer, which their option `scorer` names: beside their own options they
  // take those of that policy.
  std::unique_ptr<EvictionPolicy> (*make_over)(const PolicyOptions& options,
                                               std::unique_ptr<Scorer> scorer) = nullptr;
  // Whether `usage` names a file that only the user can supply.
  bool needs_file = false;
};

constexpr PolicyOption scorer_option() {
  return {"scorer", OptionKind::text, "snapkv", 0, 0, "", "policy whose scores are used"};
}

std::span<const PolicyInfo> policies();

// Every option that the row's usage can have: its own, and for policies over a scorer those of the
// default scorer.
std::vector<PolicyOption> usage_options(const PolicyInfo& info);

// A policy ready to run, and how it was configured.
struct ConfiguredPolicy {
  std::string text;  // as the user wrote it
  std::string name;
  std::vector<std::pair<std::string, std::string>> options;  // all, resolved
  std::unique_ptr<EvictionPolicy> policy;
};

// ConfigError for an unknown name (with the nearest one) or bad options.
ConfiguredPolicy make_policy(const PolicySpec& spec);
ConfiguredPolicy make_policy(std::string_view text);

}  // namespace kvbench
