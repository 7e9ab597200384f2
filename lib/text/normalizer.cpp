// Normalizer steps. Unicode normal forms come from utf8proc.
#include "text/normalizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "text/json_component.hpp"
#include "text/late_characters.hpp"
#include "text/letters.hpp"
#include "text/utf8.hpp"

namespace kvbench {
namespace {

// NFC, NFD, NFKC or NFKD.
class UnicodeForm : public NormalizerStep {
 public:
  explicit UnicodeForm(unsigned options) : options_(options | UTF8PROC_STABLE) {}

  // An ASCII character starts a new composition, and alone it stays as it is in all four forms.
  // So only the runs from one ASCII character to the next that hold others need work.
  std::string apply(std::string_view text, RegexScratch&) const override {
    const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
      const auto other = std::find_if_not(text.begin(), text.end(), is_ascii);
      const auto ascii_count = static_cast<std::size_t>(other - text.begin());
      if (ascii_count == text.size()) return out.append(text);
      const std::size_t begin = ascii_count == 0 ? 0 : ascii_count - 1;
      const auto next = std::find_if(other, text.end(), is_ascii);
      const auto end = static_cast<std::size_t>(next - text.begin());
      out.append(text.substr(0, begin));
      append_form(text.substr(begin, end - begin), out);
      text.remove_prefix(end);
    }
    return out;
  }

 private:
  // Nothing is reordered or composed across a character that the reference does not know.
  void append_form(std::string_view text, std::string& out) const {
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Step step = utf8_step(text.substr(at));
      if (is_late_character(step.code_point)) {
        append_known(text.substr(begin, at - begin), out);
        out.append(text.substr(at, step.byte_count));
        begin = at + step.byte_count;
      }
      at += step.byte_count;
    }
    append_known(text.substr(begin), out);
  }

  void append_known(std::string_view text, std::string& out) const {
    std::vector<utf8proc_int32_t> code_points = decompose(text);
    order_marks(code_points);
    auto count = static_cast<utf8proc_ssize_t>(code_points.size());
    if ((options_ & UTF8PROC_COMPOSE) != 0) {
      count = check(utf8proc_normalize_utf32(code_points.data(), count,
                                             static_cast<utf8proc_option_t>(options_)));
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      append_utf8(static_cast<char32_t>(code_points[static_cast<std::size_t>(i)]), out);
    }
  }

  std::vector<utf8proc_int32_t> decompose(std::string_view text) const {
    std::vector<utf8proc_int32_t> code_points;
    std::array<utf8proc_int32_t, 32> parts{};  // the longest decomposition has 18
    int unused = 0;
    while (!text.empty()) {
      const Utf8Step step = utf8_step(text);
      const auto count = check(
          utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point), parts.data(),
                                  parts.size(), static_cast<utf8proc_option_t>(options_), &unused));
      code_points.insert(code_points.end(), parts.begin(), parts.begin() + count);
      text.remove_prefix(step.byte_count);
    }
    return code_points;
  }

  // Sorts each run of combining marks by class. utf8proc_map would do it in quadratic time.
  static void order_marks(std::vector<utf8proc_int32_t>& code_points) {
    const auto mark_class = [](utf8proc_int32_t c) {
      return utf8proc_get_property(c)->combining_class;
    };
    const auto is_mark = [&](utf8proc_int32_t c) { return mark_class(c) != 0; };
    for (auto begin = code_points.begin(); begin != code_points.end();) {
      begin = std::find_if(begin, code_points.end(), is_mark);
      const auto end = std::find_if_not(begin, code_points.end(), is_mark);
      std::stable_sort(begin, end, [&](utf8proc_int32_t a, utf8proc_int32_t b) {
        return mark_class(a) < mark_class(b);
      });
      begin = end;
    }
  }

  static utf8proc_ssize_t check(utf8proc_ssize_t count) {
    if (count < 0) data_error("Unicode normalization failed: {}", utf8proc_errmsg(count));
    return count;
  }

  unsigned options_;
};

class Lowercase : public NormalizerStep {
 public:
  std::string apply(std::string_view text, RegexScratch&) const override {
    return lower_case(text);
  }
};

class Prepend : public NormalizerStep {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string apply(std::string_view text, RegexScratch&) const override {
    return text.empty() ? std::string() : prefix_ + std::string(text);
  }

 private:
  std::string prefix_;
};

class Replace : public NormalizerStep {
 public:
  Replace(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  std::string apply(std::string_view text, RegexScratch& scratch) const override {
    std::vector<RegexSpan> spans;
    pattern_.find_all(text, scratch, spans);
    std::string out;
    out.reserve(text.size());
    for (const RegexSpan& span : spans) {
      out.append(span.is_match ? content_ : text.substr(span.begin, span.end - span.begin));
    }
    return out;
  }

 private:
  Regex pattern_;
  std::string content_;
};

std::unique_ptr<NormalizerStep> make_step(const JsonComponent& spec) {
  const std::string& type = spec.type();
  if (type == "NFC") return std::make_unique<UnicodeForm>(UTF8PROC_COMPOSE);
  if (type == "NFD") return std::make_unique<UnicodeForm>(UTF8PROC_DECOMPOSE);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "Prepend") {
    return std::make_unique<Prepend>(spec.members().require_string("prepend"));
  }
  if (type == "Replace") {
    return std::make_unique<Replace>(spec.pattern(), spec.members().require_string("content"));
  }
  spec.unsupported_type("NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Sequence");
}

}  // namespace

Normalizer::Normalizer(const nlohmann::json& spec, const std::string& file) {
  if (spec.is_null()) return;
  JsonComponent(spec, file, "normalizer").for_each("normalizers", [this](const auto& step) {
    steps_.push_back(make_step(step));
  });
}

std::string Normalizer::apply(std::string_view text, RegexScratch& scratch) const {
  std::string current(text);
  for (const auto& step : steps_) current = step->apply(current, scratch);
  return current;
}

}  // namespace kvbench
