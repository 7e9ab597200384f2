// Decoding steps as CUDA graphs: the numbers of direct queuing, one executable graph used again and
// again, no allocation once the first steps have been taken; and what happens without memory.
#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "task/run_record.hpp"
#include "tests/kernels/parity.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/random_model.hpp"

namespace kvbench::test {
namespace {

constexpr RandomModelShape kShape{
    .n_layers = 3, .n_kv_heads = 2, .group = 3, .head_dim = 8, .hidden = 32};
constexpr std::int64_t kPrompt = 40;
constexpr std::int64_t kDecoded = 60;

std::vector<std::int32_t> some_ids() {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i <= kPrompt + kDecoded; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * i * 7 + 3 * i + i / 11) % kShape.vocab));
  }
  return ids;
}

// Feeds the prompt, then token by token; `after(i)` runs after each.
template <class After>
std::vector<double> decode(Backend& backend, const std::string& policy_text, After after) {
  static const TempDir directory;
  static const bool written = [] {
    write_random_llama(directory, kShape, 5);
    return true;
  }();
  CHECK(written);
  const Model model = Model::load(directory.path(), backend, DType::f32);
  const ConfiguredPolicy configured = make_policy(policy_text);
  Session session(model, backend, *configured.policy, {.chunk = 16});
  const std::vector<std::int32_t> ids = some_ids();
  const std::span<const std::int32_t> all(ids);
  std::vector<double> nll(static_cast<std::size_t>(kPrompt + kDecoded));
  session.begin(kPrompt + kDecoded);
  session.prefill(all.first(kPrompt), all.subspan(1, kPrompt), std::span(nll).first(kPrompt));
  for (std::size_t i = kPrompt; i < nll.size(); ++i) {
    session.feed(all.subspan(i, 1), all.subspan(i + 1, 1), std::span(nll).subspan(i, 1));
    after(static_cast<std::int64_t>(i) - kPrompt);
  }
  return nll;
}

constexpr auto kNothing = [](std::int64_t) {};

TEST_CASE("graphs give the numbers of direct queuing") {
#ifndef KVB_EMULATED_CUDA
  require_device();
#endif
  for (const char* policy :
       {"full", "window9", "sink2+7", "sink:sinks=2,recent=7,positions=original",
        "h2o:heavy=5,recent=4", "tova:capacity=9", "snapkv:capacity=9,window=4,kernel=3"}) {
    CAPTURE(std::string(policy));
    CudaBackend direct(1, {.graphs = false});
    CudaBackend graphs(1);
    CHECK(decode(graphs, policy, kNothing) == decode(direct, policy, kNothing));
  }
}

#ifdef KVB_EMULATED_CUDA
TEST_CASE("a decoding step is one graph, updated each time, and allocates nothing") {
  for (const char* policy : {"full", "window9", "sink2+7"}) {
    CAPTURE(std::string(policy));
    CudaBackend backend(1);
    emulation::GraphCounts before{};
    std::size_t allocations = 0;
    constexpr std::int64_t kSettled = 30;
    decode(backend, policy, [&](std::int64_t step) {
      if (step != kSettled) return;
      before = emulation::graph_counts();
      allocations = emulation::allocations();
    });
    const emulation::GraphCounts after = emulation::graph_counts();
    constexpr std::size_t kSteps = kDecoded - 1 - kSettled;
    const std::size_t made = after.made - before.made;
    CHECK(after.launched - before.launched == kSteps);
    CHECK(made + after.updated - before.updated == kSteps);
    // A step in which a streaming cache moves its rows to the front has other nodes than its
    // neighbours.
    CHECK(made <= (policy == std::string("full") ? 0 : 2));
    CHECK(emulation::allocations() == allocations);
  }
}

TEST_CASE("running out of memory in the middle of a step is an error record; the backend goes on") {
  CudaBackend backend(1);
  const auto fill = [&](std::int64_t step) {
    if (step == 3) emulation::set_memory_limit(emulation::allocated_bytes() + 5000);
  };
  // Its evidence grows with the text.
  RunRecord record;
  CHECK_FALSE(run_guarded(record, "ppl", [&] { decode(backend, "h2o:heavy=30,recent=40", fill); }));
  emulation::set_memory_limit(std::size_t{4} << 30);
  CHECK_FALSE(record.ok);
  CHECK(record.exit_code == 4);
  CHECK(contains(record.reason, "out of GPU memory"));
  CHECK(contains(record.reason, "free on device 0"));
  CudaBackend fresh(1);
  CHECK(decode(backend, "sink2+7", kNothing) == decode(fresh, "sink2+7", kNothing));
}
#endif

}  // namespace
}  // namespace kvbench::test
