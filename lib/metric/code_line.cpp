// Likeness of the first line of code in the output and the line that is the answer, in whole
// percent, as the Python packages compute it: by matching blocks (difflib, what fuzzywuzzy uses by
// itself; Ratcliff and Metzener 1988), or by insertions and deletions (what it uses where the
// package Levenshtein is installed, and thefuzz and rapidfuzz always do).
#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "metric/answer_metric.hpp"
#include "metric/words.hpp"

namespace kvbench {
namespace {

// The first line without a comment or a code fence; empty where there is none.
std::string_view first_code_line(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const bool code = line.find('`') == std::string_view::npos &&
                      line.find('#') == std::string_view::npos &&
                      line.find("//") == std::string_view::npos;
    if (code) return line;
    begin = end + 1;
  }
  return {};
}

struct Block {
  std::size_t a = 0, b = 0, size = 0;
};

// Total length of the blocks that difflib.SequenceMatcher finds in two texts.
class BlockMatcher {
 public:
  BlockMatcher(const std::u32string& a, const std::u32string& b) : a_(a), b_(b) {
    for (std::size_t j = 0; j < b.size(); ++j) places_[b[j]].push_back(j);
    if (b.size() < 200) return;
    // Characters that are very frequent in a long text start no block.
    std::erase_if(places_,
                  [&](const auto& entry) { return entry.second.size() > b.size() / 100 + 1; });
  }

  std::size_t matched() const {
    std::size_t total = 0;
    std::vector<Range> open{{0, a_.size(), 0, b_.size()}};
    while (!open.empty()) {
      const Range range = open.back();
      open.pop_back();
      const Block block = longest(range);
      if (block.size == 0) continue;
      total += block.size;
      open.push_back({range.a_begin, block.a, range.b_begin, block.b});
      open.push_back({block.a + block.size, range.a_end, block.b + block.size, range.b_end});
    }
    return total;
  }

 private:
  struct Range {
    std::size_t a_begin, a_end, b_begin, b_end;
  };

  // The longest block of a range; of equals the first in a, then in b.
  Block longest(const Range& range) const {
    Block best{range.a_begin, range.b_begin, 0};
    std::unordered_map<std::size_t, std::size_t> lengths;  // of blocks that end at (i - 1, j)
    for (std::size_t i = range.a_begin; i < range.a_end; ++i) {
      std::unordered_map<std::size_t, std::size_t> next;
      const auto found = places_.find(a_[i]);
      if (found != places_.end()) {
        for (const std::size_t j : found->second) {
          if (j < range.b_begin) continue;
          if (j >= range.b_end) break;
          const auto before = j == 0 ? lengths.end() : lengths.find(j - 1);
          const std::size_t size = (before == lengths.end() ? 0 : before->second) + 1;
          next[j] = size;
          if (size > best.size) best = {i + 1 - size, j + 1 - size, size};
        }
      }
      lengths = std::move(next);
    }
    extend(range, best);
    return best;
  }

  // Frequent characters start no block, but continue one.
  void extend(const Range& range, Block& block) const {
    while (block.a > range.a_begin && block.b > range.b_begin &&
           a_[block.a - 1] == b_[block.b - 1]) {
      --block.a;
      --block.b;
      ++block.size;
    }
    while (block.a + block.size < range.a_end && block.b + block.size < range.b_end &&
           a_[block.a + block.size] == b_[block.b + block.size]) {
      ++block.size;
    }
  }

  const std::u32string& a_;
  const std::u32string& b_;
  std::unordered_map<char32_t, std::vector<std::size_t>> places_;  // in b, ascending
};

std::size_t common_subsequence(const std::u32string& a, const std::u32string& b) {
  std::vector<std::size_t> row(b.size() + 1, 0);
  for (const char32_t c : a) {
    std::size_t diagonal = 0;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = c == b[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return row[b.size()];
}

// Halves go to the even number, as in Python.
double whole_percent(double share) {
  return std::nearbyint(100.0 * share) / 100.0;
}

struct Lines {
  std::u32string output, answer;
  std::optional<double> plain;  // known without a comparison
  double total = 0.0;           // characters of both

  explicit Lines(const AnswerCase& answer_case)
      : output(code_points(first_code_line(answer_case.output))),
        answer(code_points(answer_case.answer)),
        total(static_cast<double>(output.size() + answer.size())) {
    if (output == answer) {
      plain = 1.0;
    } else if (output.empty() || answer.empty()) {
      plain = 0.0;
    }
  }
};

}  // namespace

double line_blocks(const AnswerCase& answer_case) {
  const Lines lines(answer_case);
  if (lines.plain) return *lines.plain;
  const auto matched = static_cast<double>(BlockMatcher(lines.output, lines.answer).matched());
  return whole_percent(2.0 * matched / lines.total);
}

double line_edits(const AnswerCase& answer_case) {
  const Lines lines(answer_case);
  if (lines.plain) return *lines.plain;
  const auto common = static_cast<double>(common_subsequence(lines.output, lines.answer));
  // In the order of the package's own arithmetic: halves are rounded as they come out there.
  const double distance = lines.total - 2.0 * common;
  return whole_percent(1.0 - distance / lines.total);
}

}  // namespace kvbench
