// Definitions of metric/perplexity.hpp.
#include "metric/perplexity.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "core/error.hpp"
#include "core/stats.hpp"

namespace kvbench {

PerplexityMeter::PerplexityMeter(PerplexityOptions options) : options_(options) {
  if (options_.bootstrap_block < 1 || options_.curve_bins < 1) {
    config_error("perplexity: bootstrap block {} and curve bins {} must be at least 1",
                 options_.bootstrap_block, options_.curve_bins);
  }
}

std::size_t PerplexityMeter::begin_document(std::string name) {
  documents_.emplace_back().name = std::move(name);
  return documents_.size() - 1;
}

void PerplexityMeter::add(std::size_t document, std::int64_t position, double nll) {
  KVB_CHECK(document < documents_.size(), "document {} of {}", document, documents_.size());
  Scores& scores = documents_[document];
  if (!std::isfinite(nll)) {
    data_error("non-finite logits at token {} of document {}", position, scores.name);
  }
  KVB_CHECK(position >= scores.end_position, "document {}: position {} after {}", scores.name,
            position, scores.end_position - 1);
  if (scores.runs.empty() || position > scores.end_position) {
    scores.runs.push_back({scores.nll.size(), position});
  }
  scores.nll.push_back(nll);
  scores.end_position = position + 1;
  ++tokens_scored_;
  running_sum_ += nll;
}

void PerplexityMeter::add(std::size_t document, std::int64_t first_position,
                          std::span<const double> nll) {
  for (const double token_nll : nll) add(document, first_position++, token_nll);
}

void PerplexityMeter::set_text_size(std::size_t document, std::int64_t scored_bytes,
                                    std::int64_t scored_words) {
  KVB_CHECK(document < documents_.size(), "document {} of {}", document, documents_.size());
  documents_[document].bytes = scored_bytes;
  documents_[document].words = scored_words;
}

double PerplexityMeter::running_ppl() const {
  if (tokens_scored_ == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::exp(running_sum_ / static_cast<double>(tokens_scored_));
}

PerplexityResult PerplexityMeter::result() const {
  if (tokens_scored_ == 0) {
    data_error("nothing to score: {} documents, none with a second token", documents_.size());
  }
  std::vector<double> series;  // documents in order, each in token order
  series.reserve(static_cast<std::size_t>(tokens_scored_));
  for (const Scores& scores : documents_) {
    series.insert(series.end(), scores.nll.begin(), scores.nll.end());
  }
  PerplexityResult result;
  result.tokens_scored = tokens_scored_;
  result.nll_sum = sum(series);
  result.nll_mean = result.nll_sum / static_cast<double>(tokens_scored_);
  result.ppl = std::exp(result.nll_mean);
  const BlockStandardError error = block_bootstrap_standard_error(series, options_.bootstrap_block);
  result.nll_stderr = error.value;
  result.bootstrap_block = error.block;
  if (error.value) result.ppl_stderr = result.ppl * *error.value;
  summarise_documents(result);
  summarise_text(result);
  result.curve = curve();
  return result;
}

void PerplexityMeter::summarise_documents(PerplexityResult& result) const {
  CompensatedSum second_half;
  std::int64_t second_half_tokens = 0;
  for (const Scores& scores : documents_) {
    DocumentPerplexity document;
    document.name = scores.name;
    document.tokens_scored = static_cast<std::int64_t>(scores.nll.size());
    if (scores.nll.empty()) {
      document.skipped = "too short";
      ++result.documents_skipped;
    } else {
      document.nll_mean = mean(scores.nll);
      document.ppl = std::exp(*document.nll_mean);
      ++result.documents_scored;
      for (std::size_t token = scores.nll.size() / 2; token < scores.nll.size(); ++token) {
        second_half.add(scores.nll[token]);
        ++second_half_tokens;
      }
    }
    result.documents.push_back(std::move(document));
  }
  result.second_half_ppl = std::exp(second_half.value() / static_cast<double>(second_half_tokens));
}

void PerplexityMeter::summarise_text(PerplexityResult& result) const {
  for (const Scores& scores : documents_) {
    if (scores.nll.empty()) continue;
    if (!scores.bytes || !scores.words) return;
    result.scored_bytes += *scores.bytes;
    result.scored_words += *scores.words;
  }
  if (result.scored_bytes > 0) {
    result.bits_per_byte =
        result.nll_sum / std::numbers::ln2 / static_cast<double>(result.scored_bytes);
  }
  if (result.scored_words > 0) {
    result.word_ppl = std::exp(result.nll_sum / static_cast<double>(result.scored_words));
  }
}

std::vector<CurveBin> PerplexityMeter::curve() const {
  std::int64_t end_position = 0;
  for (const Scores& scores : documents_) {
    end_position = std::max(end_position, scores.end_position);
  }
  // Equal widths; the last bin may reach beyond the longest document.
  const std::int64_t width = (end_position + options_.curve_bins - 1) / options_.curve_bins;
  const std::int64_t bins = (end_position + width - 1) / width;
  std::vector<CurveBin> result(static_cast<std::size_t>(bins));
  std::vector<CompensatedSum> totals(result.size());
  for (const Scores& scores : documents_) {
    for (std::size_t run = 0; run < scores.runs.size(); ++run) {
      const bool is_last = run + 1 == scores.runs.size();
      const std::size_t end = is_last ? scores.nll.size() : scores.runs[run + 1].first;
      std::int64_t position = scores.runs[run].position;
      for (std::size_t token = scores.runs[run].first; token < end; ++token, ++position) {
        const auto bin = static_cast<std::size_t>(position / width);
        totals[bin].add(scores.nll[token]);
        ++result[bin].tokens;
      }
    }
  }
  for (std::size_t bin = 0; bin < result.size(); ++bin) {
    result[bin].first_position = static_cast<std::int64_t>(bin) * width;
    result[bin].end_position = std::min(result[bin].first_position + width, end_position);
    if (result[bin].tokens > 0) {
      result[bin].nll_mean = totals[bin].value() / static_cast<double>(result[bin].tokens);
    }
  }
  return result;
}

std::int64_t count_words(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  std::int64_t words = 0;
  bool in_word = false;
  for (const char byte : text) {
    const bool blank = kBlanks.find(byte) != std::string_view::npos;
    if (!blank && !in_word) ++words;
    in_word = !blank;
  }
  return words;
}

}  // namespace kvbench
