// Perplexity on lists of NLLs whose result is known by hand.
#include "metric/perplexity.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "core/error.hpp"
#include "core/rng.hpp"

namespace kvbench {
namespace {

PerplexityMeter meter_of(const std::vector<std::vector<double>>& documents,
                         PerplexityOptions options = {}) {
  PerplexityMeter meter(options);
  for (const auto& nll : documents) meter.add(meter.begin_document("document"), 1, nll);
  return meter;
}

TEST_CASE("perplexity: exp of the token-weighted mean, never of document means") {
  const PerplexityResult two = meter_of({{4, 4}, std::vector<double>(8, 1.0)}).result();
  CHECK(two.nll_mean == doctest::Approx(1.6));
  CHECK(two.ppl == doctest::Approx(4.953032424395115).epsilon(1e-12));
  CHECK(two.tokens_scored == 10);
  const PerplexityResult one = meter_of({{4}, std::vector<double>(8, 1.0)}).result();
  CHECK(one.ppl == doctest::Approx(3.7936678946831774).epsilon(1e-12));
}

TEST_CASE("perplexity: divides by the tokens scored, not by the tokens read") {
  // 40 ids, the first of which has no prediction: the sum is divided by 39.
  const PerplexityResult result = meter_of({std::vector<double>(39, 178.305928 / 39)}).result();
  CHECK(result.tokens_scored == 39);
  CHECK(result.nll_sum == doctest::Approx(178.305928).epsilon(1e-12));
  CHECK(result.ppl == doctest::Approx(96.732252).epsilon(1e-7));
}

TEST_CASE("perplexity: the order of documents changes nothing but the curve's rounding") {
  const std::vector<double> first{3.5, 2.25, 8.125};
  const std::vector<double> second{0.5, 6.75, 1.0, 1.0};
  const PerplexityResult forward = meter_of({first, second}).result();
  const PerplexityResult backward = meter_of({second, first}).result();
  CHECK(forward.ppl == backward.ppl);
  CHECK(forward.nll_sum == backward.nll_sum);
}

TEST_CASE("perplexity: tokens of several documents may arrive interleaved") {
  Rng rng(11);
  std::vector<std::vector<double>> documents(5, std::vector<double>(300));
  for (auto& nll : documents) {
    for (double& value : nll) value = 10 * rng.uniform();
  }
  const PerplexityResult in_order = meter_of(documents).result();
  PerplexityMeter interleaved;
  for (std::size_t index = 0; index < documents.size(); ++index) interleaved.begin_document("d");
  for (std::size_t token = 0; token < 300; ++token) {
    for (std::size_t document = documents.size(); document-- > 0;) {
      interleaved.add(document, static_cast<std::int64_t>(token) + 1, documents[document][token]);
    }
  }
  const PerplexityResult result = interleaved.result();
  CHECK(result.ppl == in_order.ppl);
  CHECK(*result.ppl_stderr == *in_order.ppl_stderr);
  CHECK(*result.second_half_ppl == *in_order.second_half_ppl);
}

TEST_CASE("perplexity: documents too short to score are listed, and are no result alone") {
  const PerplexityResult result = meter_of({{}, {}, std::vector<double>(11, 2.0)}).result();
  CHECK(result.tokens_scored == 11);
  CHECK(result.documents_scored == 1);
  CHECK(result.documents_skipped == 2);
  CHECK(result.documents[0].skipped == "too short");
  CHECK(result.documents[2].skipped.empty());

  CHECK_THROWS_WITH_AS(meter_of({{}, {}}).result(), doctest::Contains("nothing to score"),
                       DataError);
  CHECK_THROWS_AS(PerplexityMeter().result(), DataError);
}

TEST_CASE("perplexity: a long sum does not stop growing") {
  const PerplexityResult result = meter_of({std::vector<double>(100'000, 2.0009765625)}).result();
  CHECK(std::abs(result.nll_mean - 2.0009765625) < 1e-12);
}

TEST_CASE("perplexity: a NLL that is not finite is an error that names the token") {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()}) {
    PerplexityMeter meter;
    const std::size_t document = meter.begin_document("book.txt");
    CHECK_THROWS_WITH_AS(meter.add(document, 1, std::array{1.0, bad}),
                         "non-finite logits at token 2 of document book.txt", DataError);
  }
}

TEST_CASE("perplexity: bits per byte and word-level perplexity need every document's text") {
  PerplexityMeter meter;
  const std::size_t first = meter.begin_document("first");
  meter.add(first, 1, std::vector<double>(6, 2.0));
  const std::size_t second = meter.begin_document("second");
  meter.add(second, 1, std::vector<double>(4, 3.0));
  meter.begin_document("empty");
  meter.set_text_size(first, 30, 5);
  CHECK_FALSE(meter.result().bits_per_byte.has_value());
  CHECK_FALSE(meter.result().word_ppl.has_value());
  meter.set_text_size(second, 18, 3);
  const PerplexityResult result = meter.result();
  CHECK(*result.bits_per_byte == doctest::Approx(24 / std::numbers::ln2 / 48));
  CHECK(*result.word_ppl == doctest::Approx(std::exp(3.0)));
}

TEST_CASE("perplexity: second halves and the curve over positions") {
  // Document 0 scores positions 1..4, document 1 positions 1..2.
  const PerplexityResult result =
      meter_of({{8, 6, 2, 1}, {4, 3}}, {.bootstrap_block = 64, .curve_bins = 2}).result();
  CHECK(*result.second_half_ppl == doctest::Approx(std::exp((2.0 + 1 + 3) / 3)));
  REQUIRE(result.curve.size() == 2);  // widths of 3: positions [0, 3) and [3, 5)
  CHECK(result.curve[0].tokens == 4);
  CHECK(*result.curve[0].nll_mean == doctest::Approx((8.0 + 6 + 4 + 3) / 4));
  CHECK(result.curve[1].first_position == 3);
  CHECK(result.curve[1].end_position == 5);
  CHECK(*result.curve[1].nll_mean == doctest::Approx(1.5));
}

TEST_CASE("perplexity: positions without scores leave empty bins, not zeros") {
  PerplexityMeter meter({.bootstrap_block = 64, .curve_bins = 4});
  const std::size_t document = meter.begin_document("continuation");
  meter.add(document, 6, std::array{1.0, 2.0});  // six prompt tokens are not scored
  const std::vector<CurveBin> curve = meter.result().curve;
  REQUIRE(curve.size() == 4);
  CHECK(curve[0].tokens == 0);
  CHECK_FALSE(curve[0].nll_mean.has_value());
  CHECK(*curve[3].nll_mean == 1.5);
}

TEST_CASE("perplexity: the error bar is the delta method over the bootstrap's") {
  Rng rng(2);
  std::vector<double> nll(5000);
  for (double& value : nll) value = 6 * rng.uniform();
  const PerplexityResult result = meter_of({nll}).result();
  CHECK(result.bootstrap_block == 64);
  // Independent values here: close to sigma / sqrt(n), sigma = 6 / sqrt(12).
  CHECK(*result.nll_stderr == doctest::Approx(6 / std::sqrt(12.0 * 5000)).epsilon(0.2));
  CHECK(*result.ppl_stderr == doctest::Approx(result.ppl * *result.nll_stderr));
  CHECK_FALSE(meter_of({{2.0}}).result().ppl_stderr.has_value());
}

TEST_CASE("perplexity: words are runs of non-blank characters") {
  CHECK(count_words("") == 0);
  CHECK(count_words(" \r\n\t ") == 0);
  CHECK(count_words("It was,\r\nindeed -- a  caf\xC3\xA9.") == 6);
}

}  // namespace
}  // namespace kvbench
