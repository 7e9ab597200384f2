// SmolLM2 under attention sinks and windows against the published StreamingLLM code: the cache
// token by token, and many tokens at once, which must be the same numbers.
#include <doctest/doctest.h>

#include <fmt/core.h>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/golden/smollm2.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

const json& reference() {
  static const json document = test::read_golden("streaming_nll.json");
  return document;
}

std::vector<double> losses(const std::string& policy, std::size_t n_tokens, std::int64_t chunk) {
  static const auto ids = reference()["ids"].get<std::vector<std::int32_t>>();
  const ConfiguredPolicy configured = make_policy(policy);
  Session session(test::smollm2(), test::golden_backend(), *configured.policy, {.chunk = chunk});
  session.begin(static_cast<std::int64_t>(n_tokens));
  const auto text = std::span<const std::int32_t>(ids).first(n_tokens);
  std::vector<double> nll(n_tokens - 1);
  session.feed(text.first(n_tokens - 1), text.subspan(1), nll);
  return nll;
}

double perplexity(const std::vector<double>& nll, std::size_t first = 0) {
  double sum = 0.0;
  for (std::size_t i = first; i < nll.size(); ++i) sum += nll[i];
  return std::exp(sum / static_cast<double>(nll.size() - first));
}

void check_published(std::size_t index, std::int64_t chunk) {
  const json& published = reference()["published"][index];
  const std::string policy =
      fmt::format("sink{}+{}", published["sinks"].get<int>(), published["recent"].get<int>());
  CAPTURE(policy);
  CAPTURE(chunk);
  const auto expected = published["nll"].get<std::vector<double>>();
  const auto nll = losses(policy, published["n"].get<std::size_t>(), chunk);
  REQUIRE(nll.size() == expected.size());
  for (std::size_t i = 0; i < nll.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(nll[i] - expected[i]) < 5e-4);
  }
  CHECK(std::abs(perplexity(nll) / published["ppl"].get<double>() - 1.0) < 1e-4);
}

// Bounds in nats: of one loss, and of the sum over a block of 256.
struct Bounds {
  double token;
  double block;
};

// 4096 tokens, 512 at a time.
void check_long(const std::string& name, const std::string& policy,
                const Bounds& bounds = {1e-3, 1e-2}) {
  for (const json& long_run : reference()["token_parallel"]) {
    if (long_run["name"] != name) continue;
    const auto nll = losses(policy, 4096, 512);
    CHECK(std::abs(perplexity(nll) / long_run["ppl"].get<double>() - 1.0) < 1e-4);
    CHECK(std::abs(perplexity(nll, 2047) / long_run["ppl_second_half"].get<double>() - 1.0) < 1e-4);
    const auto& every_16th = long_run["nll_every_16th"];
    REQUIRE(every_16th.size() == 256);
    for (std::size_t i = 0; i < every_16th.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(nll[16 * i] - every_16th[i].get<double>()) < bounds.token);
    }
    std::vector<double> sums(16, 0.0);
    for (std::size_t i = 0; i < nll.size(); ++i) sums[i / 256] += nll[i];
    for (std::size_t block = 0; block < sums.size(); ++block) {
      CAPTURE(block);
      CHECK(std::abs(sums[block] - long_run["nll_block_sums_256"][block].get<double>()) <
            bounds.block);
    }
    return;
  }
  FAIL("no reference for " << name);
}

TEST_CASE("published StreamingLLM, 4 + 60, token by token") {
  check_published(0, 1);
}

TEST_CASE("published StreamingLLM, 1 + 31, token by token") {
  check_published(1, 1);
}

TEST_CASE("published StreamingLLM, any number of tokens at once") {
  for (const std::int64_t chunk : {7, 64, 512}) {
    check_published(0, chunk);
    check_published(1, chunk);
  }
}

TEST_CASE("4096 tokens under the full cache") {
  check_long("dense", "full");
}

TEST_CASE("4096 tokens under sink4+252") {
  check_long("4+252", "sink4+252");
}

// Without sinks the model is ill-conditioned, and the reference turns its rows by f32 angles at
// positions up to 4095. With such angles this program agrees with it to 6e-4; its own are exact.
TEST_CASE("4096 tokens under window256") {
  check_long("0+256", "window256", {1e-2, 5e-2});
}

TEST_CASE("4096 tokens under sink4+1020") {
  check_long("4+1020", "sink4+1020");
}

TEST_CASE("4096 tokens under sink1+255") {
  check_long("1+255", "sink1+255");
}

}  // namespace
}  // namespace kvbench
