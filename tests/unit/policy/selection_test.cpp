// What policies choose, on layers small enough to check by hand: ties, sentinels, infinities, NaN,
// query heads and their KV heads, shared budgets, pyramids, output norms.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "policy/head_budgets.hpp"
#include "policy/registry.hpp"
#include "policy/top_entries.hpp"
#include "tests/support/error_text.hpp"
#include "tests/unit/policy/fake_view.hpp"

namespace kvbench {
namespace {

using test::FakeView;
using Slots = std::vector<std::int32_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

KeepList select(const std::string& policy, FakeView& view, std::int64_t capacity) {
  view.capacity = capacity;
  KeepList keep(static_cast<std::size_t>(view.n_kv_heads));
  make_policy(policy).policy->select(view, keep);
  return keep;
}

FakeView one_head(std::vector<float> row, std::size_t window) {
  return FakeView({std::vector<std::vector<float>>(window, std::move(row))}, 1);
}

TEST_CASE("the best entries: score descending, then lower place, whatever the count") {
  Rng rng(4);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> scores(1 + rng.below(12));
    for (double& score : scores) {
      const auto drawn = rng.below(5);  // equal scores are common
      score = drawn == 4 ? kAlwaysKept : static_cast<double>(drawn);
    }
    const auto n = std::ssize(scores);
    for (std::int64_t count = 0; count <= n; ++count) {
      std::vector<std::int32_t> order(scores.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
      });
      const auto cut = order.begin() + count;
      std::int64_t ties = 0;
      for (auto gone = cut; count > 0 && gone != order.end(); ++gone) {
        ties +=
            scores[static_cast<std::size_t>(*gone)] == scores[static_cast<std::size_t>(*(cut - 1))]
                ? 1
                : 0;
      }
      std::vector<std::int32_t> expected{1, 2};
      std::sort(order.begin(), cut);
      std::transform(order.begin(), cut, std::back_inserter(expected),
                     [](std::int32_t slot) { return slot + 7; });
      std::vector<std::int32_t> kept{1, 2};
      CAPTURE(count);
      CHECK(keep_best(scores, count, 7, 0, 0, kept) == ties);
      CHECK(kept == expected);
    }
  }
}

TEST_CASE("the window stays by place, whatever the scores before it") {
  for (const float past : {0.1f, 0.0f, kInf}) {
    CAPTURE(past);
    FakeView view = one_head(std::vector<float>(10, past), 3);
    for (const char* policy :
         {"snapkv:window=3,capacity=5,pool=none", "snapkv:window=3,capacity=5,kernel=3",
          "adakv:window=3,capacity=5,pool=none"}) {
      CAPTURE(policy);
      const KeepList keep = select(policy, view, 5);
      CHECK(keep[0] == Slots{0, 1, 7, 8, 9});
      CHECK(keep.ties_at_cut == 5);
    }
  }
}

TEST_CASE("infinite scores are the best, NaN is an error") {
  std::vector<double> scores{INFINITY, INFINITY, 1, 2};
  Slots kept;
  CHECK(keep_best(scores, 2, 0, 0, 0, kept) == 0);
  CHECK(kept == Slots{0, 1});
  const auto message = [](std::vector<float> row, const char* policy) {
    return test::error_text<DataError>([&] {
      FakeView view = one_head(std::move(row), 1);
      view.layer = 7;
      view.masses = {{0.1, NAN, 0.3, 0.2}};
      select(policy, view, 2);
    });
  };
  CHECK(message({.1f, kNan, .3f, .2f}, "snapkv:window=1,capacity=2") ==
        "NaN score, layer 7, head 0, row 1");
  CHECK(message({kNan, kNan, kNan, kNan}, "snapkv:window=1,capacity=2,group=max") ==
        "NaN score, layer 7, head 0, row 0");
  CHECK(message({.1f, kNan, .3f, .2f}, "adakv:window=1,capacity=2") ==
        "NaN score, layer 7, head 0, row 1");
  CHECK(message({.1f, kNan, .3f, .2f}, "tova:capacity=2") == "NaN score, layer 7, head 0, row 1");
  CHECK(message({.1f, .1f, .3f, .2f}, "h2o:heavy=1,recent=1") ==
        "NaN score, layer 7, head 0, row 1");
  CHECK(message({.1f, .1f, .3f, .2f}, "observed_attention:capacity=2") ==
        "NaN score, layer 7, head 0, row 1");
}

TEST_CASE("neighbouring query heads share a KV head") {
  const std::vector<std::vector<std::vector<float>>> rows{{{.7f, .1f, .1f, .1f, 0}},
                                                          {{.1f, .7f, .1f, .1f, 0}},
                                                          {{.1f, .1f, .7f, .1f, 0}},
                                                          {{.1f, .1f, .1f, .7f, 0}}};
  FakeView view(rows, 2);
  const KeepList keep = select("snapkv:window=1,capacity=3,pool=none", view, 3);
  CHECK(keep[0] == Slots{0, 1, 4});
  CHECK(keep[1] == Slots{2, 3, 4});
}

TEST_CASE("h2o: heavy hitters among all but the recent, and those") {
  FakeView view = one_head({0, 0, 0, 0, 0}, 1);
  view.masses = {{3.4, 1.2, .7, .5, .2}};
  CHECK(select("h2o:heavy=3,recent=1", view, 4)[0] == Slots{0, 1, 2, 4});
}

TEST_CASE("tova: equal rows keep the lower places, the newest only by variant") {
  FakeView view = one_head({.2f, .2f, .2f, .2f, .2f}, 1);
  CHECK(select("tova:capacity=3", view, 3)[0] == Slots{0, 1, 2});
  CHECK(select("tova:capacity=3", view, 3).ties_at_cut == 2);
  CHECK(select("tova:capacity=3,variant=kvpress", view, 3)[0] == Slots{0, 1, 4});
}

TEST_CASE("pooling: a maximum sees only entries, an average counts zeros beyond the ends") {
  FakeView view = one_head({.5f, .1f, .1f, .4f, .1f, 0}, 1);
  CHECK(select("snapkv:window=1,capacity=3,pool=none", view, 3)[0] == Slots{0, 3, 5});
  CHECK(select("snapkv:window=1,capacity=3,kernel=3", view, 3)[0] == Slots{0, 1, 5});
  // Averages times 3: .6 .7 .6 .6 .5
  CHECK(select("snapkv:window=1,capacity=2,kernel=3,pool=avg", view, 2)[0] == Slots{1, 5});
}

TEST_CASE("group and pooling by a maximum or average do not commute") {
  const std::vector<std::vector<std::vector<float>>> rows{{{0, .6f, 0, 0, .5f, 0, 0, 0}},
                                                          {{0, 0, 0, 0, .5f, 0, .6f, 0}}};
  FakeView view(rows, 1);
  // Group first: .3 at 1, .5 at 4, .3 at 6. Pooled first: .3 .3 .3 .5 .55 .55 .3
  CHECK(select("snapkv:window=1,capacity=2,kernel=3", view, 2)[0] == Slots{3, 7});
  CHECK(select("snapkv:window=1,capacity=2,kernel=3,order=pool_first", view, 2)[0] == Slots{5, 7});
}

TEST_CASE("a shared budget goes to the best of all heads, after each head's own share") {
  const std::vector<std::vector<double>> scores{{9, 8, 7, 6}, {1, 2, 3, 4}, {5, 5, 5, 5}};
  CHECK(share_budget(scores, 6, 0, 0).entries == std::vector<std::int64_t>{4, 0, 2});
  CHECK(share_budget(scores, 6, 1, 0).entries == std::vector<std::int64_t>{4, 1, 1});
  CHECK(share_budget(scores, 6, 2, 0).entries == std::vector<std::int64_t>{2, 2, 2});
  CHECK(share_budget(scores, 6, 0, 0).ties_at_cut == 2);
  CHECK(share_budget(scores, 99, 0, 0).entries == std::vector<std::int64_t>{4, 4, 4});
  // Ties over heads: the lower slot first, then the lower head.
  const std::vector<std::vector<double>> equal{{1, 1, 1}, {1, 1, 1}};
  CHECK(share_budget(equal, 3, 0, 0).entries == std::vector<std::int64_t>{2, 1});
}

TEST_CASE("criticalkv: half by score, half by score times output norm") {
  FakeView view = one_head({.4f, .3f, .2f, .05f, .05f, 0}, 1);
  view.norms = {{1, 1, 1, 1, 9, 1}};
  CHECK(select("criticalkv:window=1,capacity=4,pool=none", view, 4)[0] == Slots{0, 1, 4, 5});
  CHECK(select("criticalkv:window=1,capacity=4,pool=none,first=1", view, 4)[0] ==
        Slots{0, 1, 2, 5});
  view.norms = {{0, 0, 0, 0, 0, 0}};
  CHECK(select("criticalkv:window=1,capacity=4,pool=none,first=0", view, 4)[0] ==
        Slots{0, 1, 2, 5});
}

std::vector<std::int64_t> pyramid(const std::string& policy, std::int64_t capacity,
                                  std::int64_t longest, std::size_t n_layers) {
  std::vector<std::int64_t> layers(n_layers);
  make_policy(policy).policy->share_capacity(capacity, longest, layers);
  return layers;
}

TEST_CASE("a pyramid's layers fall and add up to the budget") {
  for (const std::size_t n_layers : {2U, 3U, 7U, 30U, 32U}) {
    for (const std::int64_t capacity : {66, 67, 80, 129, 320, 1000}) {
      for (const std::int64_t longest : {capacity + 1, capacity + 7, capacity * 2, 131072L}) {
        CAPTURE(n_layers);
        CAPTURE(capacity);
        CAPTURE(longest);
        const auto layers =
            pyramid("pyramidkv:capacity=320,window=64", capacity, longest, n_layers);
        const auto sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
        CHECK(sum == static_cast<std::int64_t>(n_layers) * capacity);
        CHECK(std::is_sorted(layers.rbegin(), layers.rend()));
        CHECK(layers.front() > layers.back());
        CHECK(layers.back() > 64);
        CHECK(layers.front() <= longest);
      }
    }
  }
}

TEST_CASE("a pyramid as the paper has it, without its rounding") {
  const auto layers = pyramid("pyramidkv:capacity=320,window=64,beta=20", 320, 131072, 32);
  CHECK(layers.front() == 64 + 499);
  CHECK(layers.back() == 64 + 13);
  CHECK(pyramid("pyramidkv:capacity=320,window=64", 320, 131072, 1).front() == 320);
  // All of the prompt fits: nothing is divided.
  CHECK(pyramid("pyramidkv:capacity=320,window=64", 320, 320, 4) ==
        std::vector<std::int64_t>(4, 320));
  CHECK(test::contains(test::error_text<ConfigError>(
                           [] { pyramid("pyramidkv:capacity=65,window=64", 65, 1000, 4); }),
                       "no pyramid"));
  CHECK(test::contains(test::error_text<ConfigError>([] {
                         pyramid("pyramidkv:capacity=320,window=64,beta=1", 320, 1000, 4);
                       }),
                       "no pyramid"));
}

}  // namespace
}  // namespace kvbench
