// Table of policies. Help, `kvbench list` and the contract test walk it.
#include "policy/registry.hpp"

#include "core/error.hpp"
#include "core/nearest_name.hpp"

namespace kvbench {

// Each is defined in the file of that name.
PolicyInfo full_policy();
PolicyInfo window_policy();
PolicyInfo sink_policy();
PolicyInfo recompute_policy();
PolicyInfo random_policy();
PolicyInfo h2o_policy();
PolicyInfo knorm_policy();
PolicyInfo tova_policy();

std::span<const PolicyInfo> policies() {
  static const PolicyInfo table[] = {
      full_policy(),   window_policy(), sink_policy(),  recompute_policy(),
      random_policy(), h2o_policy(),    knorm_policy(), tova_policy(),
  };
  return table;
}

ConfiguredPolicy make_policy(const PolicySpec& spec) {
  std::vector<std::string> names;
  for (const PolicyInfo& info : policies()) {
    if (info.name != spec.name) {
      names.emplace_back(info.name);
      continue;
    }
    const PolicyOptions options(spec, info.name, info.options);
    return {spec.text, spec.name, options.resolved(), info.make(options)};
  }
  const std::string nearest = nearest_name(spec.name, names);
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  config_error("unknown policy '{}'{}; known: {}", spec.text,
               nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest), list);
}

ConfiguredPolicy make_policy(std::string_view text) {
  return make_policy(parse_policy(text));
}

}  // namespace kvbench
