// Pre-tokenizer steps: Split, Digits, Punctuation, ByteLevel, Metaspace.
#include "text/pre_tokenizer.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "text/byte_symbols.hpp"
#include "text/json_component.hpp"
#include "text/split_rule.hpp"
#include "text/utf8.hpp"

namespace kvbench {
namespace {

// GPT-2's pattern, which ByteLevel has built in.
constexpr std::string_view kByteLevelPattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
// Unicode punctuation and the ASCII symbols.
constexpr std::string_view kPunctuationPattern = "[\\p{P}$+<=>\\^`|~]";

// Splits each piece at the matches of a pattern.
class Split : public PreTokenizerStep {
 public:
  Split(Regex pattern, SplitBehavior behavior, bool invert = false)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void apply(PieceList& list, RegexScratch& scratch) const override {
    std::vector<Piece> pieces;
    std::vector<RegexSpan> spans;
    for (const Piece& piece : list.pieces) {
      pattern_.find_all(list.view(piece), scratch, spans);
      if (invert_) {
        for (RegexSpan& span : spans) span.is_match = !span.is_match;
      }
      apply_split_behavior(behavior_, spans);
      for (const RegexSpan& span : spans) {
        if (span.begin == span.end) continue;
        pieces.push_back({piece.begin + span.begin, piece.begin + span.end,
                          piece.at_text_start && span.begin == 0});
      }
    }
    list.pieces = std::move(pieces);
  }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Rewrites each piece on its own; `rewrite(piece, text so far)` appends to the new text.
template <class Rewrite>
void rewrite_pieces(PieceList& list, Rewrite rewrite) {
  std::string text;
  text.reserve(list.text.size() + list.text.size() / 4);
  for (Piece& piece : list.pieces) {
    const std::size_t begin = text.size();
    rewrite(piece, text);
    piece.begin = begin;
    piece.end = text.size();
  }
  list.text = std::move(text);
}

class PrefixSpace : public PreTokenizerStep {
 public:
  void apply(PieceList& list, RegexScratch&) const override {
    rewrite_pieces(list, [&list](const Piece& piece, std::string& text) {
      const std::string_view old = list.view(piece);
      if (!old.starts_with(' ')) text.push_back(' ');
      text.append(old);
    });
  }
};

class ByteSymbols : public PreTokenizerStep {
 public:
  void apply(PieceList& list, RegexScratch&) const override {
    rewrite_pieces(list, [&list](const Piece& piece, std::string& text) {
      append_byte_symbols(list.view(piece), text);
    });
  }
};

enum class PrependScheme : std::uint8_t { always, first, never };

// Spaces become a visible character, which is also put in front.
class Metaspace : public PreTokenizerStep {
 public:
  Metaspace(std::string replacement, PrependScheme scheme)
      : replacement_(std::move(replacement)), scheme_(scheme) {}

  void apply(PieceList& list, RegexScratch&) const override {
    rewrite_pieces(list, [&](const Piece& piece, std::string& text) {
      const std::string_view old = list.view(piece);
      const bool wanted = scheme_ == PrependScheme::always ||
                          (scheme_ == PrependScheme::first && piece.at_text_start);
      if (wanted && !old.starts_with(' ') && !old.starts_with(replacement_)) {
        text.append(replacement_);
      }
      for (const char c : old) {
        if (c == ' ') {
          text.append(replacement_);
        } else {
          text.push_back(c);
        }
      }
    });
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
};

using Steps = std::vector<std::unique_ptr<PreTokenizerStep>>;

SplitBehavior read_behavior(const JsonComponent& spec, SplitBehavior fallback) {
  const auto name = spec.members().optional_string("behavior");
  if (!name) return fallback;
  const auto behavior = split_behavior(*name);
  if (!behavior) spec.fail(fmt::format("behavior \"{}\" is not supported", *name));
  return *behavior;
}

void add_split(const JsonComponent& spec, Steps& steps) {
  if (spec.members().presence("behavior") != Presence::value) spec.fail("behavior is missing");
  steps.push_back(std::make_unique<Split>(spec.pattern(),
                                          read_behavior(spec, SplitBehavior::isolated),
                                          spec.members().optional_bool("invert").value_or(false)));
}

void add_digits(const JsonComponent& spec, Steps& steps) {
  const bool single = spec.members().optional_bool("individual_digits").value_or(false);
  steps.push_back(
      std::make_unique<Split>(Regex::pattern("\\p{N}", spec.where()),
                              single ? SplitBehavior::isolated : SplitBehavior::contiguous));
}

void add_byte_level(const JsonComponent& spec, Steps& steps) {
  if (spec.members().optional_bool("add_prefix_space").value_or(true)) {
    steps.push_back(std::make_unique<PrefixSpace>());
  }
  if (spec.members().optional_bool("use_regex").value_or(true)) {
    steps.push_back(std::make_unique<Split>(Regex::pattern(kByteLevelPattern, spec.where()),
                                            SplitBehavior::isolated));
  }
  steps.push_back(std::make_unique<ByteSymbols>());
}

// Older files have the boolean add_prefix_space only.
PrependScheme read_prepend_scheme(const JsonComponent& spec) {
  const bool prefix = spec.members().optional_bool("add_prefix_space").value_or(true);
  const auto name = spec.members().optional_string("prepend_scheme");
  if (!name) return prefix ? PrependScheme::always : PrependScheme::never;
  if (*name == "never") return PrependScheme::never;
  if (!prefix)
    spec.fail(fmt::format("add_prefix_space is false, but prepend_scheme is \"{}\"", *name));
  if (*name == "always") return PrependScheme::always;
  if (*name == "first") return PrependScheme::first;
  spec.fail(fmt::format("prepend_scheme \"{}\": expected always, first or never", *name));
}

void add_metaspace(const JsonComponent& spec, Steps& steps) {
  std::string replacement = spec.members().require_string("replacement");
  if (replacement.empty() || utf8_step(replacement).byte_count != replacement.size()) {
    spec.fail(fmt::format("replacement \"{}\": expected one character", replacement));
  }
  Regex at_replacement = Regex::literal(replacement, spec.where());
  steps.push_back(std::make_unique<Metaspace>(std::move(replacement), read_prepend_scheme(spec)));
  if (spec.members().optional_bool("split").value_or(true)) {
    steps.push_back(
        std::make_unique<Split>(std::move(at_replacement), SplitBehavior::merged_with_next));
  }
}

void add_punctuation(const JsonComponent& spec, Steps& steps) {
  steps.push_back(std::make_unique<Split>(Regex::pattern(kPunctuationPattern, spec.where()),
                                          read_behavior(spec, SplitBehavior::isolated)));
}

}  // namespace

PreTokenizer::PreTokenizer(const nlohmann::json& spec, const std::string& file) {
  if (spec.is_null()) return;
  const JsonComponent root(spec, file, "pre_tokenizer");
  root.for_each("pretokenizers", [this](const JsonComponent& step) {
    const std::string& type = step.type();
    if (type == "Split") return add_split(step, steps_);
    if (type == "Digits") return add_digits(step, steps_);
    if (type == "Punctuation") return add_punctuation(step, steps_);
    if (type == "Metaspace") return add_metaspace(step, steps_);
    if (type != "ByteLevel") {
      step.unsupported_type("Split, Digits, Punctuation, ByteLevel, Metaspace, Sequence");
    }
    add_byte_level(step, steps_);
    byte_level_ = true;
  });
}

PieceList PreTokenizer::apply(std::string text, bool at_text_start, RegexScratch& scratch) const {
  PieceList list{std::move(text), {}};
  if (list.text.empty()) return list;
  list.pieces.push_back({0, list.text.size(), at_text_start});
  for (const auto& step : steps_) step->apply(list, scratch);
  return list;
}

}  // namespace kvbench
