// Records say what was kept per layer and KV head: for every registered policy the rows in the
// record are those of a session that did the same, and they add up to the bytes.
#include <doctest/doctest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/registry.hpp"
#include "engine/session.hpp"
#include "task/ppl.hpp"
#include "tests/support/small_policies.hpp"

namespace kvbench {
namespace {

using Rows = std::vector<std::vector<std::int64_t>>;  // [layer][kv_head]

constexpr std::int64_t kPrompt = 30;
constexpr std::int64_t kScore = 6;
constexpr std::int64_t kBudget = 9;

Rows rows_of_session(const std::string& directory, const std::string& policy_text,
                     const std::vector<std::int32_t>& ids) {
  const auto backend = make_backend("cpu", 1);
  const Model model = Model::load(directory, *backend, DType::f32);
  const auto policy = make_policy(policy_text).policy;
  Session session(model, *backend, *policy, {});
  const std::span<const std::int32_t> text(ids);
  session.begin(kPrompt + kScore);
  session.prefill(text.first(kPrompt), {}, {}, text.subspan(kPrompt));
  session.feed(text.subspan(kPrompt));
  Rows rows;
  for (std::int64_t layer = 0; layer < model.config().n_layers; ++layer) {
    rows.emplace_back();
    for (std::int64_t kv_head = 0; kv_head < model.config().n_kv_heads; ++kv_head) {
      rows.back().push_back(session.cache().length(layer, kv_head));
    }
  }
  return rows;
}

TEST_CASE("every policy's record lists what each layer and head kept") {
  const test::RandomModelShape shape{.n_layers = 3, .group = 2};
  const test::TempDir directory;
  test::write_random_llama(directory, shape, 5);
  const test::SmallPolicies small(shape);
  Rng rng(5);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < kPrompt + kScore + 1; ++i) {
    ids.push_back(static_cast<std::int32_t>(rng.below(32)));
  }
  PplRequest request;
  request.model = directory.path().string();
  request.backend = "cpu";
  request.tokens.ids = {ids};
  request.protocol = "continue";
  request.protocol_options = {.prompt = kPrompt, .score = kScore};
  for (const PolicyInfo& info : policies()) {
    request.policies.push_back(test::full_text(*small.make(info, kBudget)));
  }
  ids.pop_back();  // a target only
  TaskContext context;
  context.quiet = true;
  for (const RunRecord& record : run_ppl(request, context)) {
    CAPTURE(record.policy);
    REQUIRE_MESSAGE(record.ok, record.reason);
    const auto rows = nlohmann::json::parse(record.details_json).at("kv_rows").get<Rows>();
    CHECK(rows == rows_of_session(request.model, record.policy, ids));
    std::int64_t entries = 0;
    for (const auto& layer : rows) {
      for (const std::int64_t length : layer) entries += length;
    }
    const Metric* live = find_metric(record, "kv_bytes_live");
    REQUIRE(live != nullptr);
    CHECK(*live->value == entries * 2 * shape.head_dim * 4);
    const Metric* capacity = find_metric(record, "capacity");
    const std::int64_t heads = shape.n_layers * shape.n_kv_heads;
    if (capacity != nullptr) CHECK(*capacity->value == kBudget);
    if (capacity != nullptr) CHECK(entries <= (kBudget + kScore) * heads);
    CHECK((capacity != nullptr) == (record.policy != "full"));
  }
}

}  // namespace
}  // namespace kvbench
