// Rewrites the few constructs that the two engines read differently:
//   \s \S   Unicode White_Space (PCRE2's \s also takes U+180E)
//   \w \W   Alphabetic, M, Nd, Pc (PCRE2: L, N, underscore)
//   \p{Han} the Script property (PCRE2 10.40 and later: Script_Extensions)
#include "text/regex_syntax.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 37> kGeneralCategories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};

constexpr std::string_view kWordClass = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

class Rewriter {
 public:
  Rewriter(std::string_view pattern, const std::string& where) : in_(pattern), where_(where) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        inside_class(c);
      } else {
        outside_class(c);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    data_error("{}: pattern \"{}\": {} at byte {} is not supported", where_, in_, what, at_);
  }

  void copy(std::size_t count) {
    out_.append(in_.substr(at_, count));
    at_ += count;
  }

  void inside_class(char c) {
    if (c == '[' || in_.substr(at_, 2) == "&&") refuse("a class or \"&&\" inside a class");
    if (c == ']') in_class_ = false;
    copy(1);
  }

  void outside_class(char c) {
    if (c == '[') {
      in_class_ = true;
      copy(in_.substr(at_, 2) == "[^" ? 2 : 1);
      if (in_.substr(at_, 1) == "]") refuse("\"]\" as the first of a class");
      return;
    }
    // Oniguruma: `{1,3}+` repeats the repetition, `{3}?` makes it optional, `{,3}` is `{0,3}`.
    for (const std::string_view other : {"}+", "}?", "{,"}) {
      if (in_.substr(at_, 2) == other) refuse("this repetition");
    }
    if (in_.substr(at_, 2) == "(?") group_head();
    copy(1);
  }

  // Groups that both engines read alike. An option without a group of its own is alike only at
  // the start: further on, Oniguruma extends it over the alternatives that follow.
  void group_head() {
    constexpr std::array<std::string_view, 8> kHeads = {"(?:",  "(?=",  "(?!",  "(?>",
                                                        "(?<=", "(?<!", "(?i:", "(?-i:"};
    const auto here = in_.substr(at_);
    if (at_ == 0 && here.starts_with("(?i)")) return;
    if (std::none_of(kHeads.begin(), kHeads.end(),
                     [&](std::string_view head) { return here.starts_with(head); })) {
      refuse("this kind of group");
    }
  }

  void escape() {
    if (at_ + 1 == in_.size()) refuse("a lone \"\\\"");
    const char c = in_[at_ + 1];
    switch (c) {
      case 's':
        return replace("\\p{White_Space}");
      case 'S':
        return replace("\\P{White_Space}");
      case 'w':
        return replace(in_class_ ? kWordClass : std::string("[").append(kWordClass) + "]");
      case 'W':
        if (in_class_) refuse("\"\\W\" inside a class");
        return replace(std::string("[^").append(kWordClass) + "]");
      case 'p':
      case 'P':
        return property();
      case 'd':
        return replace("\\p{Nd}");
      case 'D':
        return replace("\\P{Nd}");
      case 'n':
      case 'r':
      case 't':
        return copy(2);
      case 'x':
        return hex_escape();
      case 'u':
        return unicode_escape();
      default:
        break;
    }
    const bool ascii_word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                            (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80;
    if (ascii_word) refuse(std::string("\"\\") + c + "\"");
    copy(2);
  }

  void replace(std::string_view text) {
    out_.append(text);
    at_ += 2;
  }

  void hex_escape() {
    const std::size_t close = in_.substr(at_ + 2, 1) == "{" ? in_.find('}', at_) : at_ + 1;
    if (close == std::string_view::npos) refuse("\"\\x{\" without \"}\"");
    copy(close + 1 - at_);
  }

  void unicode_escape() {
    const auto digits = in_.substr(at_ + 2, 4);
    const bool hex = digits.size() == 4 &&
                     digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
    if (!hex) refuse("\"\\u\" without four hex digits");
    out_.append("\\x{").append(digits).append("}");
    at_ += 6;
  }

  void property() {
    const std::size_t close = in_.find('}', at_);
    if (in_.substr(at_ + 2, 1) != "{" || close == std::string_view::npos) {
      refuse("a property without braces");
    }
    std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    const bool category = std::find(kGeneralCategories.begin(), kGeneralCategories.end(), name) !=
                          kGeneralCategories.end();
    out_.append(in_.substr(at_, 2)).append(negated ? "{^" : "{");
    out_.append(category ? "" : "sc:").append(name).append("}");
    at_ = close + 1;
  }

  std::string_view in_;
  const std::string& where_;
  std::string out_;
  std::size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string pcre2_from_oniguruma(std::string_view pattern, const std::string& where) {
  return Rewriter(pattern, where).run();
}

}  // namespace kvbench
