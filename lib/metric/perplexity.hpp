// Perplexity from per-token negative log-likelihoods (natural log), teacher forced.
// exp of the token-weighted mean over all documents: never a mean of document means. A result is
// the same for any order in which the tokens of different documents arrive.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvbench {

struct PerplexityOptions {
  std::int64_t bootstrap_block = 64;  // tokens per block of the standard error
  std::int64_t curve_bins = 64;       // equal ranges of positions
};

// Mean NLL of the tokens whose position in their document lies in [first_position, end_position).
struct CurveBin {
  std::int64_t first_position = 0;
  std::int64_t end_position = 0;
  std::int64_t tokens = 0;
  std::optional<double> nll_mean;  // absent where no token was scored
};

struct DocumentPerplexity {
  std::string name;
  std::int64_t tokens_scored = 0;
  std::optional<double> nll_mean;
  std::optional<double> ppl;
  std::string skipped;  // why nothing was scored ("too short"), else empty
};

struct PerplexityResult {
  double ppl = 0.0;                  // infinite when nll_mean is above 709
  std::optional<double> ppl_stderr;  // delta method: ppl * nll_stderr
  double nll_mean = 0.0;
  std::optional<double> nll_stderr;  // block bootstrap over the documents' tokens in order
  double nll_sum = 0.0;
  std::int64_t tokens_scored = 0;
  std::int64_t documents_scored = 0;
  std::int64_t documents_skipped = 0;
  std::int64_t bootstrap_block = 0;  // tokens, as used

  std::optional<double> bits_per_byte;  // absent unless every scored document gave its bytes
  std::optional<double> word_ppl;       // exp(nll_sum / words), PG-19's own measure; likewise
  std::int64_t scored_bytes = 0;
  std::int64_t scored_words = 0;
  // The same mean over the second half of each document's scored tokens only.
  std::optional<double> second_half_ppl;

  std::vector<CurveBin> curve;
  std::vector<DocumentPerplexity> documents;  // in the order they were begun
};

class PerplexityMeter {
 public:
  explicit PerplexityMeter(PerplexityOptions options = {});

  // Starts a document (or a segment that is scored by itself); returns its index for `add`.
  std::size_t begin_document(std::string name);

  // Scores one token: `position` is its place in the document, 0 being the first id of it.
  // Positions of one document ascend. Throws DataError for a NLL that is NaN or infinite.
  void add(std::size_t document, std::int64_t position, double nll);
  // Scores consecutive tokens, the first one at `first_position`.
  void add(std::size_t document, std::int64_t first_position, std::span<const double> nll);

  // The text that the scored tokens of a document stand for. Not calling this (plain token ids)
  // leaves bits per byte and word-level perplexity out.
  void set_text_size(std::size_t document, std::int64_t scored_bytes, std::int64_t scored_words);

  std::int64_t tokens_scored() const { return tokens_scored_; }
  double running_ppl() const;  // for a progress line; NaN before the first token

  // Throws DataError "nothing to score" when no document had a scored token.
  PerplexityResult result() const;

 private:
  // Scored tokens [first, that of the next run) of a document, which stand side by side in it.
  struct Run {
    std::size_t first;
    std::int64_t position;  // of the first one
  };
  struct Scores {
    std::string name;
    std::vector<Run> runs;    // positions ascend
    std::vector<double> nll;  // [token], nats
    std::int64_t end_position = 0;
    std::optional<std::int64_t> bytes;
    std::optional<std::int64_t> words;
  };

  void summarise_documents(PerplexityResult& result) const;
  void summarise_text(PerplexityResult& result) const;
  std::vector<CurveBin> curve() const;

  PerplexityOptions options_;
  std::vector<Scores> documents_;
  std::int64_t tokens_scored_ = 0;
  double running_sum_ = 0.0;
};

// Words as PG-19 counts them for its word-level perplexity: runs of non-blank characters.
std::int64_t count_words(std::string_view text);

}  // namespace kvbench
