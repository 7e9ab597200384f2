// SmolLM2 on prompts from Emma: scores and kept entries of snapkv, tova, knorm, observed_attention,
// adakv, criticalkv and of per-layer budgets, against published code. Compressing a layer comes
// after its attention, so one forward pass serves every policy of a prompt.
#include <doctest/doctest.h>

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/golden/kept_sets.hpp"
#include "tests/golden/smollm2.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

const json& reference() {
  static const json document = test::read_golden("attention_policies.json");
  return document;
}

// Shows each query head as a KV head of its own, as caches have it that repeat keys per query head.
class UngroupedView final : public LayerView {
 public:
  explicit UngroupedView(LayerView& view) : view_(view), shared_(view.group) {
    static_cast<LayerView&>(*this) = view;
    n_kv_heads = n_heads;
    group = 1;
  }
  std::span<const std::int32_t> positions(std::int64_t head) const override {
    return view_.positions(head / shared_);
  }
  std::int64_t window_rows() override { return view_.window_rows(); }
  std::span<const float> window_row(std::int64_t head, std::int64_t row) override {
    return view_.window_row(head, row);
  }
  double window_log_sum_exp(std::int64_t head, std::int64_t row) override {
    return view_.window_log_sum_exp(head, row);
  }
  std::span<const double> replayed(std::int64_t head) override {
    return view_.replayed(head / shared_);
  }
  std::span<const double> mass(std::int64_t head) override { return view_.mass(head / shared_); }
  std::span<const double> query_mean(std::int64_t head) override { return view_.query_mean(head); }
  std::span<const double> query_covariance(std::int64_t head) override {
    return view_.query_covariance(head);
  }
  std::span<const float> keys(std::int64_t head) override { return view_.keys(head / shared_); }
  std::span<const float> values(std::int64_t head) override { return view_.values(head / shared_); }
  std::span<const double> output_norms(std::int64_t head) override {
    return view_.output_norms(head);
  }
  std::span<const double> inv_freq() const override { return view_.inv_freq(); }
  double rope_attention_factor() const override { return view_.rope_attention_factor(); }
  bool rope_interleaved() const override { return view_.rope_interleaved(); }

 private:
  LayerView& view_;
  std::int64_t shared_;
};

// The scorer behind a policy string, with what it was configured to.
struct NamedScorer {
  std::unique_ptr<Scorer> scorer;
  bool times_output_norm = false;
};

NamedScorer scorer_of(const std::string& text) {
  const std::string over = "criticalkv:scorer=snapkv,";
  NamedScorer named;
  named.times_output_norm = text.starts_with(over);
  const PolicySpec spec =
      parse_policy(named.times_output_norm ? "snapkv:" + text.substr(over.size()) : text);
  for (const PolicyInfo& info : policies()) {
    if (info.name != spec.name) continue;
    named.scorer = info.make_scorer(PolicyOptions(spec, info.name, info.options));
  }
  return named;
}

// Asks every policy of a prompt what it would keep of each layer, and keeps one entry itself.
class Panel final : public EvictionPolicy {
 public:
  explicit Panel(const json& prompt) : prompt_(prompt) {
    traits_.capacity = 1;
    traits_.timing = EvictTiming::prefill;
    traits_.needs.window = 64;
    traits_.needs.mass = true;
    traits_.needs.output_norms = true;
    for (const json& expected : prompt["cases"]) {
      policies_.push_back(make_policy(expected["policy"].get<std::string>()));
    }
    for (const json& expected : prompt["scores"]) {
      scorers_.push_back(scorer_of(expected["policy"].get<std::string>()));
    }
  }
  const PolicyTraits& traits() const override { return traits_; }

  void select(LayerView& view, KeepList& keep) override {
    for (std::size_t i = 0; i < policies_.size(); ++i) check_kept(view, i);
    const auto& shown = reference()["layers"];
    const auto at = std::find(shown.begin(), shown.end(), view.layer);
    for (std::size_t i = 0; i < scorers_.size() && at != shown.end(); ++i) {
      check_scores(view, i, static_cast<std::size_t>(at - shown.begin()));
    }
    for (std::size_t head = 0; head < keep.size(); ++head) keep[head] = {0};
  }

 private:
  void check_kept(LayerView& view, std::size_t index) {
    const json& expected = prompt_["cases"][index];
    EvictionPolicy& policy = *policies_[index].policy;
    view.capacity = policy.traits().capacity;
    if (expected.contains("layer_capacity")) {
      view.capacity = expected["layer_capacity"][static_cast<std::size_t>(view.layer)];
    }
    CAPTURE(expected["name"].get<std::string>());
    CAPTURE(view.layer);
    if (expected.value("per_query_head", false)) return check_query_heads(view, expected, policy);
    // kvpress may give the last layers of a pyramid their window and nothing else.
    if (expected.contains("layer_capacity") && view.capacity <= 32) return;
    KeepList kept(static_cast<std::size_t>(view.n_kv_heads));
    policy.select(view, kept);
    for (std::size_t head = 0; head < kept.size(); ++head) {
      test::check_kept_set(expected, reference()["layers"], view.layer, head, kept[head]);
    }
  }

  // Where the published code leaves the order of equal scores open, whatever it kept in place of
  // our choice must tie with our lowest score.
  static void check_query_heads(LayerView& view, const json& expected, EvictionPolicy& policy) {
    UngroupedView ungrouped(view);
    KeepList kept(static_cast<std::size_t>(view.n_heads));
    policy.select(ungrouped, kept);
    const NamedScorer named = scorer_of(expected["policy"].get<std::string>());
    std::vector<double> scores;
    for (std::size_t head = 0; head < kept.size(); ++head) {
      if (expected.contains("hashes")) {
        test::check_kept_set(expected, reference()["layers"], view.layer, head, kept[head]);
        continue;
      }
      named.scorer->score(ungrouped, static_cast<std::int64_t>(head), scores);
      double lowest = kAlwaysKept;
      for (const std::int32_t slot : kept[head]) {
        lowest = std::min(lowest, scores[static_cast<std::size_t>(slot)]);
      }
      CAPTURE(head);
      for (const std::int32_t slot :
           test::expected_positions(expected, reference()["layers"], view.layer, head)) {
        CHECK(scores[static_cast<std::size_t>(slot)] >= lowest * (1.0 - 1e-4));
      }
    }
  }

  void check_scores(LayerView& view, std::size_t index, std::size_t shown) {
    const json& expected = prompt_["scores"][index];
    CAPTURE(expected["policy"].get<std::string>());
    CAPTURE(view.layer);
    view.capacity = view.length(1);
    std::vector<double> scores;
    scorers_[index].scorer->score(view, 1, scores);
    if (scorers_[index].times_output_norm) weigh(view, scores);
    const auto stride = expected["stride"].get<std::size_t>();
    const json& values = expected["values"][shown];
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t slot = i * stride;
      if (values[i].is_null() || slot >= scores.size() || scores[slot] == kAlwaysKept) continue;
      CAPTURE(slot);
      const auto value = values[i].get<double>();
      CHECK(std::abs(scores[slot] - value) <= 1e-4 * std::abs(value) + 1e-12);
    }
  }

  static void weigh(LayerView& view, std::vector<double>& scores) {
    for (std::size_t slot = 0; slot < scores.size(); ++slot) {
      double norm = 0.0;
      for (std::int64_t head = view.group; head < 2 * view.group; ++head) {
        norm += view.output_norms(head)[slot] / static_cast<double>(view.group);
      }
      scores[slot] = (scores[slot] + 1e-4) * norm;
    }
  }

  const json& prompt_;
  PolicyTraits traits_;
  std::vector<ConfiguredPolicy> policies_;
  std::vector<NamedScorer> scorers_;
};

void check_prompt(const std::string& name, std::size_t n_cases, std::int64_t chunk) {
  for (const json& prompt : reference()["prompts"]) {
    if (prompt["name"] != name) continue;
    CHECK(prompt["cases"].size() == n_cases);
    Panel panel(prompt);
    const auto ids = prompt["ids"].get<Ids>();
    Session session(test::smollm2(), test::golden_backend(), panel, {.chunk = chunk});
    session.begin(static_cast<std::int64_t>(ids.size()));
    session.prefill(ids, {}, {});
    CHECK(session.evicted_entries() == 30 * 3 * (static_cast<std::int64_t>(ids.size()) - 1));
    return;
  }
  FAIL("no prompt " << name);
}

TEST_CASE("scores and kept entries after 330 tokens") {
  check_prompt("p330", 18, 512);
}

TEST_CASE("the same with the prompt in chunks") {
  check_prompt("p330", 18, 100);
}

TEST_CASE("scores and kept entries after 640 tokens, per query head") {
  check_prompt("p640", 1, 512);
}

TEST_CASE("scores and kept entries after 700 tokens") {
  check_prompt("p700", 13, 512);
}

}  // namespace
}  // namespace kvbench
