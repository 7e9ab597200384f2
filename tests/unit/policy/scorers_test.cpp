// Scorers on made-up layers: rkv against its definition written out plainly; what keydiff, lagkv
// and qfilter do with input that has no direction, no range, or the wrong shape.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "core/error.hpp"
#include "policy/registry.hpp"
#include "policy/top_entries.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/unit/policy/fake_view.hpp"

namespace kvbench {
namespace {

using Rows = std::vector<std::vector<double>>;
constexpr double kHidden = -std::numeric_limits<double>::infinity();

std::unique_ptr<Scorer> make_scorer(const std::string& text) {
  const PolicySpec spec = parse_policy(text);
  for (const PolicyInfo& info : policies()) {
    if (info.name == spec.name)
      return info.make_scorer(PolicyOptions(spec, info.name, info.options));
  }
  return nullptr;
}

std::vector<double> scores_of(const std::string& policy, LayerView& view, std::int64_t kv_head) {
  std::vector<double> scores;
  make_scorer(policy)->score(view, kv_head, scores);
  return scores;
}

std::vector<double> softmax(std::vector<double> x) {
  double sum = 0.0;
  for (double& value : x) sum += value = std::exp(value);
  for (double& value : x) value /= sum;
  return x;
}

// Raw scores of `rows` newest queries per head over `length` entries.
std::vector<Rows> random_window(std::size_t heads, std::size_t rows, std::size_t length) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal(0.0, 3.0);
  std::vector<Rows> window(heads, Rows(rows, std::vector<double>(length)));
  for (Rows& head : window) {
    for (std::size_t row = 0; row < rows; ++row) {
      for (double& score : head[row]) score = normal(random);
      for (std::size_t slot = length - rows + row + 1; slot < length; ++slot) {
        head[row][slot] = kHidden;
      }
    }
  }
  return window;
}

// Mean over rows of a softmax, over the entries before the window, of the group's largest scores.
std::vector<double> plain_importance(const std::vector<Rows>& window, std::size_t first_head,
                                     std::size_t group, std::size_t before) {
  const std::size_t rows = window[0].size();
  std::vector<double> mean(before, 0.0);
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<double> largest(before, kHidden);
    for (std::size_t head = first_head; head < first_head + group; ++head) {
      for (std::size_t i = 0; i < before; ++i) {
        largest[i] = std::max(largest[i], window[head][row][i]);
      }
    }
    largest = softmax(largest);
    for (std::size_t i = 0; i < before; ++i) mean[i] += largest[i] / static_cast<double>(rows);
  }
  return mean;
}

std::vector<double> plain_redundancy(const std::vector<float>& keys, std::size_t length,
                                     double threshold) {
  const std::size_t d = keys.size() / length;
  const auto dot = [&](std::size_t a, std::size_t b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < d; ++i) {
      sum += static_cast<double>(keys[a * d + i]) * static_cast<double>(keys[b * d + i]);
    }
    return sum;
  };
  std::vector<double> mean(length, 0.0);
  for (std::size_t row = 0; row < length; ++row) {
    std::vector<double> cosines(length, 0.0);
    std::size_t last_copy = length;
    for (std::size_t i = 0; i < length; ++i) {
      if (i == row) continue;
      cosines[i] = dot(row, i) / std::sqrt(dot(row, row) * dot(i, i));
      if (cosines[i] > threshold) last_copy = i;
    }
    if (last_copy < length) cosines[last_copy] = 0.0;
    for (std::size_t i = 0; i < length; ++i) mean[i] += cosines[i] / static_cast<double>(length);
  }
  return softmax(mean);
}

TEST_CASE("rkv is attention of the last queries against redundancy of keys") {
  constexpr std::size_t kLength = 45;
  constexpr std::size_t kWindow = 4;
  constexpr std::size_t kDim = 8;
  test::FakeView view(kLength, 2, 3, kDim);
  // Some keys come again, so that the copies' rule has work to do.
  auto& keys = view.stored_keys;
  std::copy_n(keys.begin() + 3 * kDim, kDim, keys.begin() + 30 * kDim);
  std::copy_n(keys.begin() + 3 * kDim, kDim, keys.begin() + 37 * kDim);
  const auto window = random_window(6, kWindow, kLength);
  view.set_window(window);
  const auto scores = scores_of(
      "rkv:capacity=20,window=4,kernel=5,lambda=0.3,threshold=0.6,timing=prefill", view, 1);

  const auto importance = plain_importance(window, 3, 3, kLength - kWindow);
  const auto redundancy = plain_redundancy(keys, kLength, 0.6);
  REQUIRE(scores.size() == kLength);
  for (std::size_t i = 0; i < kLength - kWindow; ++i) {
    CAPTURE(i);
    const auto from = importance.begin() + static_cast<std::ptrdiff_t>(i < 2 ? 0 : i - 2);
    const auto to =
        importance.begin() + static_cast<std::ptrdiff_t>(std::min(i + 3, kLength - kWindow));
    const double expected = 0.3 * *std::max_element(from, to) - 0.7 * redundancy[i];
    CHECK(scores[i] == doctest::Approx(expected).epsilon(1e-5));
  }
  for (std::size_t i = kLength - kWindow; i < kLength; ++i) CHECK(scores[i] == kAlwaysKept);
}

TEST_CASE("rkv's window must leave room") {
  const auto message = test::error_text<ConfigError>([] { make_policy("rkv:capacity=8"); });
  CHECK(test::contains(message, "more than the 8"));
  CHECK(test::contains(
      test::error_text<ConfigError>([] { make_policy("rkv:capacity=80,kernel=4"); }), "odd"));
}

TEST_CASE("keydiff: a key of zeros has no direction and is no NaN") {
  test::FakeView view(6, 1, 1, 4);
  std::fill_n(view.stored_keys.begin(), 4, 0.0f);
  CHECK(scores_of("keydiff:capacity=3", view, 0)[0] == 0.0);
  std::fill(view.stored_keys.begin(), view.stored_keys.end(), 0.0f);
  for (const double score : scores_of("keydiff:capacity=3", view, 0)) CHECK(score == 0.0);
}

TEST_CASE("keydiff: the odd key out scores highest, equal ones lowest") {
  test::FakeView view(5, 1, 1, 2);
  view.stored_keys = {1, 0, 2, 0, 3, 0, 0.5f, 0, -1, 0};
  const auto scores = scores_of("keydiff:capacity=3", view, 0);
  for (std::size_t i = 0; i < 4; ++i) CHECK(scores[i] == doctest::Approx(-1.0));
  CHECK(scores[4] == doctest::Approx(1.0));
}

TEST_CASE("lagkv: short prompts keep their newest entries") {
  test::FakeView view(11, 1, 1, 4);
  const auto scores = scores_of("lagkv:capacity=3,lag=4,sinks=4", view, 0);
  CHECK(scores[3] == kAlwaysKept);
  CHECK(std::is_sorted(scores.begin() + 4, scores.end()));
  CHECK(scores[4] < scores[5]);
  CHECK(scores.back() < kAlwaysKept);
}

// Two whole partitions: the first is rated, the second and what follows it stay.
TEST_CASE("lagkv: only entries with a whole partition behind them are rated") {
  test::FakeView view(13, 1, 1, 4);
  const auto scores = scores_of("lagkv:capacity=3,lag=4,sinks=4", view, 0);
  std::vector<double> ranks(scores.begin() + 4, scores.begin() + 8);
  std::sort(ranks.begin(), ranks.end());
  CHECK(ranks == std::vector<double>{0.0, 0.25, 0.5, 0.75});
  for (const std::size_t i : {0, 3, 8, 12}) CHECK(scores[i] == kAlwaysKept);
}

TEST_CASE("lagkv: a channel without a range is left out") {
  test::FakeView view(8, 1, 1, 4);
  for (auto* rows : {&view.stored_keys, &view.stored_values}) {
    for (std::size_t slot = 0; slot < 8; ++slot) (*rows)[slot * 4 + 1] = 7.0f;
  }
  const std::string policy = "lagkv:capacity=3,lag=4,sinks=0,compare=score";
  const auto scores = scores_of(policy, view, 0);
  double sum = 0.0;
  for (std::size_t i = 0; i < 4; ++i) sum += scores[i];
  CHECK(sum == doctest::Approx(1.0));
  for (auto* rows : {&view.stored_keys, &view.stored_values}) {
    std::fill(rows->begin(), rows->end(), 7.0f);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(scores_of(policy, view, 0)[i] == doctest::Approx(0.25));
  }
}

TEST_CASE("qfilter: minus the product with the head's filter, from a file") {
  const test::TempDir directory;
  const auto write = [&](const char* name, const Shape& shape, const std::vector<float>& values) {
    return directory
        .write(name, test::SafetensorsBuilder().add_f32("q_filters", shape, values).bytes())
        .string();
  };
  test::FakeView view(3, 2, 1, 2);
  view.stored_keys = {1, 0, 0, 1, 2, 2};
  const auto file = write("filters.safetensors", {1, 2, 2}, {5, 7, 1, -3});
  CHECK(scores_of("qfilter:capacity=1,filters=" + file, view, 0) ==
        std::vector<double>{-5, -7, -24});
  CHECK(scores_of("qfilter:capacity=1,filters=" + file, view, 1) == std::vector<double>{-1, 3, 4});

  const auto other = write("other.safetensors", {2, 1, 2}, {5, 7, 1, -3});
  const auto message = test::error_text<DataError>(
      [&] { scores_of("qfilter:capacity=1,filters=" + other, view, 0); });
  CHECK(test::contains(message, "[1, 2, 2]"));
  CHECK(test::contains(message, "[2, 1, 2]"));
  const auto flat = write("flat.safetensors", {4}, {5, 7, 1, -3});
  CHECK(test::contains(
      test::error_text<DataError>([&] { make_policy("qfilter:capacity=1,filters=" + flat); }),
      "[n_layers, n_kv_heads, head_dim]"));
  CHECK(test::contains(test::error_text<ConfigError>([&] { make_policy("qfilter:capacity=1"); }),
                       "filters"));
}

TEST_CASE("the best of a whole model: by score, then position, layer and head") {
  std::vector<KeepList> keep(2, KeepList(2));
  std::vector<ScoredEntry> entries;
  for (std::int32_t layer = 0; layer < 2; ++layer) {
    for (std::int32_t head = 0; head < 2; ++head) {
      for (std::int32_t slot = 0; slot < 3; ++slot) {
        const bool best = layer == 1 && head == 0 && slot == 2;
        entries.push_back({best ? 9.0 : 1.0, slot, layer, head, slot});
      }
    }
  }
  CHECK(keep_best_of_model(entries, 4, keep) == 8);  // all others tie with the last one
  CHECK(keep[0][0] == std::vector<std::int32_t>{0});
  CHECK(keep[0][1] == std::vector<std::int32_t>{0});
  CHECK(keep[1][0] == std::vector<std::int32_t>{0, 2});
  CHECK(keep[1][1].empty());

  entries[5].score = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(keep_best_of_model(entries, 4, keep), DataError);
}

}  // namespace
}  // namespace kvbench
