// Session: feeding in pieces, scoring, what happens to bad input; models that slide a window of
// their own under a policy that evicts.
#include "engine/session.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <memory>

#include "backend/registry.hpp"
#include "core/error.hpp"
#include "policy/registry.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;

Backend& backend() {
  static const std::unique_ptr<Backend> one_thread = make_backend("cpu", 1);
  return *one_thread;
}

const Model& tiny(const std::string& name) {
  static std::map<std::string, Model> models;
  auto found = models.find(name);
  if (found == models.end()) {
    found = models.emplace(name, Model::load(test::tiny_model(name), backend(), DType::f32)).first;
  }
  return found->second;
}

Ids some_ids(std::int64_t n) {
  Ids ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>((i * i + 3) % 32));
  return ids;
}

std::vector<double> losses(const Model& model, const std::string& policy, const Ids& ids,
                           const std::vector<std::size_t>& pieces, std::int64_t chunk) {
  const ConfiguredPolicy configured = make_policy(policy);
  Session session(model, backend(), *configured.policy, {.chunk = chunk});
  session.begin(static_cast<std::int64_t>(ids.size()));
  std::vector<double> nll(ids.size() - 1);
  const std::span<const std::int32_t> text(ids);
  std::size_t done = 0;
  for (std::size_t i = 0; done < nll.size(); ++i) {
    const std::size_t n = std::min(pieces[i % pieces.size()], nll.size() - done);
    session.feed(text.subspan(done, n), text.subspan(done + 1, n),
                 std::span<double>(nll).subspan(done, n));
    done += n;
  }
  return nll;
}

double largest_gap(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::fmax(largest, std::abs(a[i] - b[i]));
  return a.size() == b.size() ? largest : INFINITY;
}

// mistral_w4's layers see 4 tokens; qwen2_flag_true_mwl1 slides in one of two layers.
TEST_CASE("how a text is fed does not change its losses") {
  const Ids ids = some_ids(60);
  for (const std::string name :
       {"llama", "qwen3", "mistral_w4", "qwen2_flag_true_mwl1", "llama_rope_llama3_small"}) {
    for (const std::string policy :
         {"full", "window9", "window9:positions=original", "window9:evict=before", "sink3+5",
          "sink3+5:evict=before", "sink3+5:positions=original", "sink2+1", "recompute9",
          "random:capacity=9", "random:capacity=9,positions=cache_index"}) {
      CAPTURE(name);
      CAPTURE(policy);
      const auto one_by_one = losses(tiny(name), policy, ids, {1}, 1);
      CHECK(largest_gap(losses(tiny(name), policy, ids, {64}, 64), one_by_one) < 1e-5);
      CHECK(largest_gap(losses(tiny(name), policy, ids, {64}, 7), one_by_one) < 1e-5);
      CHECK(largest_gap(losses(tiny(name), policy, ids, {1, 5, 13}, 8), one_by_one) < 1e-5);
    }
  }
}

TEST_CASE("what nobody scores leaves what is scored after it alone") {
  const Ids ids = some_ids(40);
  for (const std::string policy : {"recompute9", "recompute30", "sink3+5"}) {
    CAPTURE(policy);
    const auto all = losses(tiny("llama"), policy, ids, {64}, 64);
    const ConfiguredPolicy configured = make_policy(policy);
    Session session(tiny("llama"), backend(), *configured.policy, {});
    session.begin(std::ssize(ids));
    session.prefill(std::span(ids).first(25), {}, {});
    std::vector<float> logits(static_cast<std::size_t>(session.vocab_size()));
    session.last_logits(logits);
    double total = 0.0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit));
    const double first = std::log(total) - logits[static_cast<std::size_t>(ids[25])];
    CHECK(std::abs(first - all[24]) < 1e-5);
    std::vector<double> rest(14);
    session.feed(std::span(ids).subspan(25, 14), std::span(ids).subspan(26, 14), rest);
    CHECK(largest_gap(rest, {all.begin() + 25, all.end()}) < 1e-5);
  }
}

TEST_CASE("the model's own window under a policy that keeps less or more than it") {
  const Ids ids = some_ids(40);
  const auto full = losses(tiny("mistral_w4"), "full", ids, {64}, 64);
  // The model never looks further back than 4 tokens: keeping 4 or more recent ones is the same.
  CHECK(largest_gap(losses(tiny("mistral_w4"), "window4:positions=original", ids, {64}, 64), full) <
        1e-5);
  CHECK(largest_gap(losses(tiny("mistral_w4"), "window8", ids, {64}, 64), full) < 1e-5);
  CHECK(largest_gap(losses(tiny("mistral_w4"), "window2", ids, {64}, 64), full) > 1e-3);
}

TEST_CASE("ids outside the vocabulary name themselves, and the range") {
  const ConfiguredPolicy policy = make_policy("full");
  Session session(tiny("llama"), backend(), *policy.policy, {});
  session.begin(4);
  for (const std::int32_t id : {32, -1, 2147483647}) {
    const Ids ids = {1, id};
    const std::string message = test::error_text<DataError>([&] { session.feed(ids); });
    CAPTURE(message);
    CHECK(test::contains(message, fmt::format("token id {} outside 0..31", id)));
  }
  const Ids good = {1};
  const Ids bad = {32};
  std::vector<double> nll(1);
  CHECK_THROWS_AS(session.feed(good, bad, nll), DataError);
  const Ids last = {31};
  session.begin(1);
  CHECK_NOTHROW(session.feed(last));
}

TEST_CASE("contracts between caller and session") {
  const ConfiguredPolicy policy = make_policy("full");
  Session session(tiny("llama"), backend(), *policy.policy, {});
  session.begin(4);
  std::vector<float> logits(32);
  CHECK_THROWS_AS(session.last_logits(logits), InternalError);
  const Ids ids = {1, 2};
  const Ids targets = {1, 2, 3};
  std::vector<double> three(3);
  std::vector<double> one(1);
  CHECK_THROWS_AS(session.feed(ids, targets, three), InternalError);
  CHECK_THROWS_AS(session.feed(ids, ids, one), InternalError);
}

TEST_CASE("fewer targets than tokens: the first ones are scored") {
  const Ids ids = some_ids(12);
  const auto all = losses(tiny("llama"), "full", ids, {64}, 64);
  const ConfiguredPolicy policy = make_policy("full");
  for (const std::int64_t chunk : {1, 5, 64}) {
    Session session(tiny("llama"), backend(), *policy.policy, {.chunk = chunk});
    session.begin(12);
    std::vector<double> nll(7);
    const std::span<const std::int32_t> text(ids);
    session.feed(text, text.subspan(1, 7), nll);
    CHECK(largest_gap(nll, std::vector<double>(all.begin(), all.begin() + 7)) < 1e-5);
    CHECK(session.tokens_fed() == 12);
  }
}

TEST_CASE("two sessions on one model do not meet") {
  const ConfiguredPolicy full = make_policy("full");
  const ConfiguredPolicy window = make_policy("window4");
  const Ids ids = some_ids(20);
  const auto expected_full = losses(tiny("llama"), "full", ids, {1}, 8);
  const auto expected_window = losses(tiny("llama"), "window4", ids, {1}, 8);
  Session a(tiny("llama"), backend(), *full.policy, {.chunk = 8});
  Session b(tiny("llama"), backend(), *window.policy, {.chunk = 8});
  a.begin(20);
  b.begin(20);
  std::vector<double> nll_a(19), nll_b(19);
  const std::span<const std::int32_t> text(ids);
  for (std::size_t i = 0; i < 19; ++i) {
    a.feed(text.subspan(i, 1), text.subspan(i + 1, 1), std::span<double>(nll_a).subspan(i, 1));
    b.feed(text.subspan(i, 1), text.subspan(i + 1, 1), std::span<double>(nll_b).subspan(i, 1));
  }
  CHECK(nll_a == expected_full);
  CHECK(nll_b == expected_window);
}

// 20 tokens at once, of which 10 stay: one layer, 2 KV heads of 4 floats.
TEST_CASE("bytes of a session are those of its entries") {
  test::TempDir directory;
  test::write_random_llama(directory, {.n_layers = 1, .group = 2}, 1);
  const Model model = Model::load(directory.path(), backend(), DType::f32);
  const ConfiguredPolicy policy = make_policy("window10");
  Session session(model, backend(), *policy.policy, {.chunk = 64});
  session.begin(20);
  session.feed(some_ids(20));
  CHECK(session.cache().live_bytes() == 640);
  CHECK(session.cache().peak_live_bytes() == 1280);
  CHECK(session.cache().allocated_bytes() >= 640);
  CHECK(session.evicted_entries() == 20);
}

}  // namespace
}  // namespace kvbench
