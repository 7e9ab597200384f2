// PCRE2 behind Regex: compiled once, matched with a stack of its own.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.hpp"

#include <pcre2.h>

#include <array>

#include "core/error.hpp"
#include "text/regex_syntax.hpp"
#include "text/utf8.hpp"

namespace kvbench {
namespace {

constexpr std::size_t kStackStartBytes = std::size_t{64} << 10;
constexpr std::size_t kStackMaxBytes = std::size_t{512} << 20;  // reserved only when needed
// Backtracking steps of one match: enough for a run of 10^8 characters, while a hostile pattern
// ends in an error after some seconds.
constexpr std::uint32_t kMatchLimit = 200'000'000;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 160> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

template <class T>
T* not_null(T* pointer) {
  if (pointer == nullptr) device_error("out of memory in PCRE2");
  return pointer;
}

PCRE2_SPTR subject_of(std::string_view text) {
  // PCRE2 wants a valid pointer for an empty subject, too.
  return reinterpret_cast<PCRE2_SPTR>(text.empty() ? "" : text.data());
}

}  // namespace

struct RegexScratch::State {
  std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context{
      not_null(pcre2_match_context_create(nullptr)), &pcre2_match_context_free};
  std::unique_ptr<pcre2_jit_stack, decltype(&pcre2_jit_stack_free)> stack{
      not_null(pcre2_jit_stack_create(kStackStartBytes, kStackMaxBytes, nullptr)),
      &pcre2_jit_stack_free};
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match{
      not_null(pcre2_match_data_create(1, nullptr)), &pcre2_match_data_free};
};

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {
  pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
  pcre2_set_match_limit(state_->context.get(), kMatchLimit);
}

RegexScratch::~RegexScratch() = default;

struct Regex::Code {
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> compiled;
};

Regex::Regex(std::string_view pcre2_pattern, unsigned options, const std::string& where)
    : where_(where) {
  int code = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* compiled =
      pcre2_compile(subject_of(pcre2_pattern), pcre2_pattern.size(), options, &code, &at, nullptr);
  if (compiled == nullptr) {
    data_error("{}: pattern \"{}\": {} (at byte {})", where, pcre2_pattern, pcre2_message(code),
               at);
  }
  code_ = std::make_shared<const Code>(Code{{compiled, &pcre2_code_free}});
  // Where the machine allows no generated code, PCRE2's interpreter matches the same, slower.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
}

Regex Regex::pattern(std::string_view oniguruma_pattern, const std::string& where) {
  return {pcre2_from_oniguruma(oniguruma_pattern, where),
          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, where};
}

Regex Regex::literal(std::string_view text, const std::string& where) {
  return {text, PCRE2_UTF | PCRE2_LITERAL, where};
}

bool Regex::match(std::string_view text, std::size_t from, RegexScratch& scratch,
                  std::size_t& begin, std::size_t& end) const {
  auto& state = *scratch.state_;
  // The text is known to be valid; checking it in each call would make a scan quadratic.
  const int result = pcre2_match(code_->compiled.get(), subject_of(text), text.size(), from,
                                 PCRE2_NO_UTF_CHECK, state.match.get(), state.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    data_error("{}: matching at byte {} of a text of {} bytes failed: {}", where_, from,
               text.size(), pcre2_message(result));
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state.match.get());
  begin = offsets[0];
  end = offsets[1];
  return true;
}

void Regex::find_all(std::string_view text, RegexScratch& scratch,
                     std::vector<RegexSpan>& spans) const {
  spans.clear();
  std::size_t covered = 0;
  std::size_t from = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  bool matched_before = false;
  while (from <= text.size() && match(text, from, scratch, begin, end)) {
    // An empty match right after another match does not count: step over one character.
    if (begin == end && matched_before && end == covered) {
      from = end + (end < text.size() ? utf8_step(text.substr(end)).byte_count : 1);
      if (from > text.size()) break;
      continue;
    }
    if (begin > covered) spans.push_back({covered, begin, false});
    spans.push_back({begin, end, true});
    covered = end;
    from = end;
    matched_before = true;
  }
  if (covered < text.size()) spans.push_back({covered, text.size(), false});
}

bool Regex::matches_at_start(std::string_view text, RegexScratch& scratch) const {
  std::size_t begin = 0;
  std::size_t end = 0;
  return match(text, 0, scratch, begin, end) && begin == 0;
}

}  // namespace kvbench
