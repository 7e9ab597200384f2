// CpuBackend::for_each: operations that run at once do what they do alone, and a failure comes out.
#include <doctest/doctest.h>

#include <atomic>
#include <deque>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "tests/support/error_text.hpp"
#include "tests/unit/backend/attention_case.hpp"

namespace kvbench {
namespace {

// One token and several, short and long, heads for the decoding loops and others.
std::vector<test::AttentionShape> shapes() {
  std::vector<test::AttentionShape> all;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    all.push_back({.head_dim = seed % 3 == 0 ? 20 : 64,
                   .group = 3,
                   .n_tokens = seed % 2 == 0 ? 1 : 7,
                   .stored = static_cast<std::int64_t>(seed) * 61,
                   .rotary_dim = 16,
                   .seed = seed});
  }
  return all;
}

struct Results {
  std::deque<test::AttentionCase> cases;
  std::vector<std::vector<float>> weights;
};

Results run(int threads) {
  Results results;
  for (const test::AttentionShape& shape : shapes()) {
    const test::AttentionCase& made = results.cases.emplace_back(shape);
    results.weights.emplace_back(
        static_cast<std::size_t>(made.n_heads() * shape.n_tokens * made.longest()));
  }
  CpuBackend backend(threads);
  for (int round = 0; round < 4; ++round) {
    backend.for_each(std::ssize(results.cases), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      test::AttentionCase& one = results.cases[at];
      const AttentionArgs args = one.args();
      backend.attention(args);
      backend.attention_weights({.attention = args,
                                 .log_sum_exp = args.log_sum_exp,
                                 .weights = results.weights[at].data(),
                                 .row_stride = one.longest(),
                                 .sum_tokens = false});
    });
  }
  return results;
}

TEST_CASE("for_each: attention calls at once are those alone, bit for bit") {
  const Results alone = run(1);
  for (const int threads : {2, 4}) {
    const Results at_once = run(threads);
    for (std::size_t i = 0; i < alone.cases.size(); ++i) {
      CHECK(at_once.cases[i].output() == alone.cases[i].output());
      CHECK(at_once.weights[i] == alone.weights[i]);
    }
  }
}

TEST_CASE("for_each: each index once; of several failures the first one's") {
  for (const int threads : {1, 2, 4}) {
    CpuBackend backend(threads);
    std::vector<std::atomic<int>> calls(100);
    backend.for_each(100, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
    for (const auto& count : calls) CHECK(count == 1);
    const std::string message = test::error_text<DataError>([&] {
      backend.for_each(100, [](std::int64_t i) {
        if (i % 10 == 7) data_error("failure {}", i);
      });
    });
    CHECK(message == "failure 7");
    backend.for_each(0, [](std::int64_t) { FAIL("nothing to do"); });
  }
}

}  // namespace
}  // namespace kvbench
