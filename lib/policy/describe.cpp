// From the registry's rows to Markdown.
#include "policy/describe.hpp"

#include <fmt/core.h>

#include "policy/registry.hpp"

namespace kvbench {
namespace {

std::string range_of(const PolicyOption& option) {
  if (option.kind == OptionKind::choice) {
    std::string choices;
    for (const char c : option.choices) choices += c == '|' ? "\\|" : std::string(1, c);
    return choices;
  }
  if (option.kind == OptionKind::path) return "a file";
  if (option.kind == OptionKind::text) {
    return option.choices.empty() ? "a name" : std::string(option.choices);
  }
  if (option.max >= kMaxEntries) return fmt::format("from {}", option.min);
  return fmt::format("{} to {}", option.min, option.max);
}

std::string keys_of(const PolicyInfo& info) {
  std::string keys;
  for (const PolicyOption& option : info.options) {
    const std::string fallback =
        option.fallback.empty() ? "required" : fmt::format("{}", option.fallback);
    keys += fmt::format("{}`{}`={} ({})", keys.empty() ? "" : "<br>", option.key, fallback,
                        range_of(option));
  }
  return keys.empty() ? "none" : keys;
}

std::string when_of(const PolicyInfo& info, const PolicyTraits* traits) {
  for (const PolicyOption& option : info.options) {
    if (option.key == "timing") return fmt::format("{} (or as `timing` says)", option.fallback);
  }
  if (traits == nullptr) return "-";
  if (traits->recompute_length) return "nothing is cached";
  if (!traits->kept && traits->timing == EvictTiming::prefill) return "prefill";
  return traits->capacity == kUnlimited ? "never" : "every step";
}

// What the engine gathers for it, which is what it costs.
std::string needs_of(const PolicyTraits* traits) {
  if (traits == nullptr) return "a file beside the model";
  const PolicyNeeds& needs = traits->needs;
  std::string text;
  const auto add = [&](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
  if (traits->kept) add("positions only: many tokens at once");
  if (traits->recompute_length) add("a forward over the window per token");
  if (needs.window > 0) add(fmt::format("attention rows of the last {} queries", needs.window));
  if (needs.mass) add("the attention mass of every entry: a second pass over the scores");
  if (needs.query_moments) add("mean and covariance of the queries");
  if (needs.replay.tokens != ReplayNeeds::Tokens::none) add("a second pass behind the prompt");
  return text.empty() ? "stored keys or values at selection" : text;
}

}  // namespace

std::string policies_markdown() {
  std::string page =
      "| policy | keeps | keys: default (range) | acts | needs | source "
      "|\n|---|---|---|---|---|---|\n";
  for (const PolicyInfo& info : policies()) {
    const auto policy = info.needs_file ? nullptr : make_policy(parse_policy(info.usage)).policy;
    const PolicyTraits* traits = policy == nullptr ? nullptr : &policy->traits();
    page += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", info.usage, info.summary,
                        keys_of(info), when_of(info, traits), needs_of(traits), info.source);
  }
  return page;
}

}  // namespace kvbench
