// Table of policies. Help, `kvbench list` and the contract test walk it.
#include "policy/registry.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/nearest_name.hpp"

namespace kvbench {

// Each is defined in the file of that name.
PolicyInfo full_policy();
PolicyInfo window_policy();
PolicyInfo sink_policy();
PolicyInfo recompute_policy();
PolicyInfo random_policy();
PolicyInfo expected_attention_policy();
PolicyInfo h2o_policy();
PolicyInfo keydiff_policy();
PolicyInfo knorm_policy();
PolicyInfo kvzip_policy();
PolicyInfo lagkv_policy();
PolicyInfo oracle_policy();
PolicyInfo qfilter_policy();
PolicyInfo rkv_policy();
PolicyInfo tova_policy();
PolicyInfo snapkv_policy();
PolicyInfo observed_attention_policy();
PolicyInfo pyramidkv_policy();
PolicyInfo adakv_policy();
PolicyInfo criticalkv_policy();
PolicyInfo criticaladakv_policy();

namespace {

// The row of that name among those that `eligible` accepts; ConfigError with `what` otherwise.
template <class Eligible>
const PolicyInfo& find_policy(std::string_view name, const std::string& what, Eligible&& eligible) {
  std::vector<std::string> names;
  std::string list;
  for (const PolicyInfo& info : policies()) {
    if (!eligible(info)) continue;
    if (info.name == name) return info;
    names.emplace_back(info.name);
    list += fmt::format("{}{}", list.empty() ? "" : ", ", info.name);
  }
  const std::string nearest = nearest_name(std::string(name), names);
  config_error("{}{}; known: {}", what,
               nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest), list);
}

// Own options first; of the scorer's, those that are not among them.
std::vector<PolicyOption> merged(std::span<const PolicyOption> own,
                                 std::span<const PolicyOption> scorer) {
  std::vector<PolicyOption> all(own.begin(), own.end());
  for (const PolicyOption& option : scorer) {
    const auto same_key = [&](const PolicyOption& known) { return known.key == option.key; };
    if (std::none_of(own.begin(), own.end(), same_key)) all.push_back(option);
  }
  return all;
}

const PolicyInfo& find_scorer(std::string_view name, std::string_view policy_text) {
  return find_policy(
      name, fmt::format("policy '{}': key scorer: no policy '{}' rates entries", policy_text, name),
      [](const PolicyInfo& row) { return row.make_scorer != nullptr; });
}

ConfiguredPolicy make_over_scorer(const PolicySpec& spec, const PolicyInfo& info) {
  std::string name(scorer_option().fallback);
  for (const auto& [key, value] : spec.options) {
    if (key == scorer_option().key) name = value;
  }
  const PolicyInfo& scorer = find_scorer(name, spec.text);
  const PolicyOptions options(spec, info.name, merged(info.options, scorer.options));
  return {spec.text, spec.name, options.resolved(),
          info.make_over(options, scorer.make_scorer(options))};
}

}  // namespace

std::span<const PolicyInfo> policies() {
  static const PolicyInfo table[] = {
      full_policy(),                // everything
      window_policy(),              // by position
      sink_policy(),                //
      recompute_policy(),           //
      random_policy(),              // control
      h2o_policy(),                 // by attention
      tova_policy(),                //
      snapkv_policy(),              //
      observed_attention_policy(),  //
      expected_attention_policy(),  //
      rkv_policy(),                 // and by what is stored
      knorm_policy(),               // by what is stored
      keydiff_policy(),             //
      lagkv_policy(),               //
      qfilter_policy(),             //
      pyramidkv_policy(),           // over a scorer
      adakv_policy(),               //
      criticalkv_policy(),          //
      criticaladakv_policy(),       //
      kvzip_policy(),               // with a second pass
      oracle_policy(),              //
  };
  return table;
}

std::vector<PolicyOption> usage_options(const PolicyInfo& info) {
  if (info.make_over == nullptr) return {info.options.begin(), info.options.end()};
  return merged(info.options, find_scorer(scorer_option().fallback, info.usage).options);
}

ConfiguredPolicy make_policy(const PolicySpec& spec) {
  const PolicyInfo& info = find_policy(spec.name, fmt::format("unknown policy '{}'", spec.text),
                                       [](const PolicyInfo&) { return true; });
  if (info.make_over != nullptr) return make_over_scorer(spec, info);
  const PolicyOptions options(spec, info.name, info.options);
  return {spec.text, spec.name, options.resolved(), info.make(options)};
}

ConfiguredPolicy make_policy(std::string_view text) {
  return make_policy(parse_policy(text));
}

}  // namespace kvbench
