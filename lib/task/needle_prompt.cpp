// Definitions of needle_prompt.hpp.
#include "task/needle_prompt.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace kvbench {
namespace {

// Tokens looked at for the end of a sentence: "Mr", ".", a quote.
constexpr std::size_t kTailTokens = 4;

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// Whether the text ends as a sentence does: a stop, which is no title's, and perhaps quotes.
bool ends_sentence(std::string_view text) {
  const auto drop = [&](std::string_view tail) {
    const bool there = text.ends_with(tail);
    if (there) text.remove_suffix(tail.size());
    return there;
  };
  while (drop("\"") || drop("'") || drop(")") || drop("_") || drop("\u201D") || drop("\u2019")) {
  }
  if (drop("!") || drop("?") || drop("\u3002") || drop("\uFF01") || drop("\uFF1F")) return true;
  if (!drop(".")) return false;
  constexpr std::array<std::string_view, 5> kTitles{"Mr", "Mrs", "Dr", "Ms", "St"};
  return std::none_of(kTitles.begin(), kTitles.end(),
                      [&](std::string_view title) { return text.ends_with(title); });
}

}  // namespace

Haystack::Haystack(std::span<const std::int32_t> ids, const Tokenizer& tokenizer, bool sentences)
    : ids_(ids), tokenizer_(tokenizer), sentences_(sentences) {
  if (ids_.empty()) config_error("the haystack has 0 tokens: give --data a text that is not empty");
}

std::vector<std::int32_t> Haystack::cut(std::int64_t first, std::int64_t tokens) const {
  std::vector<std::int32_t> part;
  part.reserve(static_cast<std::size_t>(tokens));
  for (std::int64_t i = 0; i < tokens; ++i) {
    part.push_back(ids_[static_cast<std::size_t>((first + i) % size())]);
  }
  return part;
}

// A sentence begins behind the end of another and white space.
bool Haystack::sentence_begins(std::span<const std::int32_t> part, std::size_t at) const {
  std::string before;
  for (std::size_t i = at - std::min(at, kTailTokens); i < at; ++i) {
    before += tokenizer_.token_bytes(part[i]);
  }
  std::size_t end = before.size();
  while (end > 0 && is_blank(before[end - 1])) --end;
  const std::string next = at < part.size() ? tokenizer_.token_bytes(part[at]) : "\n";
  const bool gap = end < before.size() || (!next.empty() && is_blank(next.front()));
  return gap && ends_sentence(std::string_view(before).substr(0, end));
}

std::int64_t Haystack::place(std::span<const std::int32_t> part, double depth) const {
  auto at = static_cast<std::size_t>(std::llround(depth * static_cast<double>(part.size())));
  while (sentences_ && at > 0 && !sentence_begins(part, at)) --at;
  return static_cast<std::int64_t>(at);
}

NeedlePrompt assemble_needle_prompt(const NeedlePieces& pieces, const Haystack& haystack,
                                    std::int64_t first, std::int64_t length,
                                    std::span<const double> depths) {
  KVB_CHECK(depths.size() == pieces.needles.size(), "{} depths for {} needles", depths.size(),
            pieces.needles.size());
  std::size_t fixed = pieces.intro.size() + pieces.question.size();
  for (const auto& needle : pieces.needles) fixed += needle.size();
  if (static_cast<std::int64_t>(fixed) > length) {
    config_error("a prompt of {} tokens: introduction, needles and question take {} already",
                 length, fixed);
  }
  NeedlePrompt prompt;
  prompt.haystack_tokens = length - static_cast<std::int64_t>(fixed);
  prompt.haystack_repeats = std::max<std::int64_t>(
      1, (first + prompt.haystack_tokens + haystack.size() - 1) / haystack.size());
  const std::vector<std::int32_t> part = haystack.cut(first, prompt.haystack_tokens);
  std::vector<std::int64_t> places;
  for (const double depth : depths) places.push_back(haystack.place(part, depth));
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return places[a] < places[b]; });

  prompt.needles.resize(places.size());
  prompt.context = pieces.intro;
  std::int64_t done = 0;
  for (const std::size_t i : order) {
    prompt.context.insert(prompt.context.end(), part.begin() + done, part.begin() + places[i]);
    done = places[i];
    const auto& needle = pieces.needles[i];
    prompt.needles[i] = {
        static_cast<std::int64_t>(prompt.context.size()), static_cast<std::int64_t>(needle.size()),
        part.empty() ? 0.0 : static_cast<double>(done) / static_cast<double>(part.size())};
    prompt.context.insert(prompt.context.end(), needle.begin(), needle.end());
  }
  prompt.context.insert(prompt.context.end(), part.begin() + done, part.end());
  prompt.question = pieces.question;
  return prompt;
}

}  // namespace kvbench
