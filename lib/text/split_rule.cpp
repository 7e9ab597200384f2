// Joining and dropping of spans, in the order in which the reference library looks at them.
#include "text/split_rule.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace kvbench {
namespace {

// Joins a span to the one before it wherever `joins(this, before)` says so.
template <class Joins>
void join_to_previous(std::vector<RegexSpan>& spans, Joins joins) {
  std::vector<RegexSpan> out;
  bool before = false;
  for (const RegexSpan& span : spans) {
    if (!out.empty() && joins(span.is_match, before)) {
      out.back().end = span.end;
    } else {
      out.push_back(span);
    }
    before = span.is_match;
  }
  spans = std::move(out);
}

void join_to_next(std::vector<RegexSpan>& spans) {
  std::vector<RegexSpan> out;  // right to left
  bool after = false;
  for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
    if (!out.empty() && span->is_match && !after) {
      out.back().begin = span->begin;
    } else {
      out.push_back(*span);
    }
    after = span->is_match;
  }
  spans.assign(out.rbegin(), out.rend());
}

}  // namespace

std::optional<SplitBehavior> split_behavior(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames = {{
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous},
  }};
  const auto* found = std::find_if(kNames.begin(), kNames.end(),
                                   [&](const auto& entry) { return entry.first == name; });
  if (found == kNames.end()) return std::nullopt;
  return found->second;
}

void apply_split_behavior(SplitBehavior behavior, std::vector<RegexSpan>& spans) {
  switch (behavior) {
    case SplitBehavior::isolated:
      return;
    case SplitBehavior::removed:
      std::erase_if(spans, [](const RegexSpan& span) { return span.is_match; });
      return;
    case SplitBehavior::contiguous:
      return join_to_previous(spans, [](bool is_match, bool before) { return is_match == before; });
    case SplitBehavior::merged_with_previous:
      return join_to_previous(spans,
                              [](bool is_match, bool before) { return is_match && !before; });
    case SplitBehavior::merged_with_next:
      return join_to_next(spans);
  }
}

}  // namespace kvbench
