// Whole sessions on the tiny checkpoints, CPU against CUDA: logits, losses and kept entries of
// every policy.
#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <string>

#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/golden/tiny_families.hpp"
#include "tests/kernels/parity.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench::test {
namespace {

// Folders with weights, one per kind of checkpoint: grouped and ungrouped heads, a head size of its
// own, biases, norms of q and k, and a sliding window.
const char* const kCheckpoints[] = {"llama",          "llama_headdim8",   "llama_mha_no_kv_key",
                                    "llama_attnbias", "qwen2_flag_false", "qwen3"};

// Every registered policy, small enough to evict from a text of 42 tokens, and some variants.
std::vector<std::string> policies_to_compare() {
  std::vector<std::string> texts = {"window9:evict=before", "sink2+7:positions=original"};
  const std::map<std::string_view, std::string> own_spelling = {
      {"full", "full"}, {"window", "window9"}, {"sink", "sink2+7"}, {"recompute", "recompute8"}};
  const std::map<std::string_view, int> small = {
      {"capacity", 9}, {"heavy", 5}, {"recent", 4}, {"window", 4}, {"kernel", 3}};
  for (const PolicyInfo& info : policies()) {
    if (info.needs_file) continue;
    const auto spelled = own_spelling.find(info.name);
    if (spelled != own_spelling.end()) {
      texts.push_back(spelled->second);
      continue;
    }
    std::string text(info.name);
    char separator = ':';
    if (info.make_over != nullptr) {  // with the keys of its scorer, snapkv
      text += ":window=4,kernel=3";
      separator = ',';
    }
    for (const PolicyOption& option : info.options) {
      const auto value = small.find(option.key);
      if (value == small.end()) continue;
      text += fmt::format("{}{}={}", separator, option.key, value->second);
      separator = ',';
    }
    texts.push_back(text);
  }
  return texts;
}

// Sanitizers make runs several times as long, and policies share nearly all kernels: two will do.
bool left_out(std::string_view policy) {
#if defined(__SANITIZE_ADDRESS__)
  return policy != "full" && !policy.starts_with("snapkv:");
#else
  return policy.empty();
#endif
}

struct Outcome {
  std::vector<float> logits;
  std::vector<double> nll;
  std::vector<std::vector<std::int32_t>> kept;  // [layers * KV heads]
  std::int64_t evicted = 0;
  std::int64_t quantised = 0;  // rows
};

Outcome run_session(Backend& backend, const std::filesystem::path& folder,
                    const std::string& policy, SessionOptions options = {},
                    const SinkSource& sinks = {}) {
  const Model model = Model::load(folder, backend, DType::f32, sinks);
  ConfiguredPolicy configured = make_policy(policy);
  options.chunk = 19;
  options.seed = 3;
  Session session(model, backend, *configured.policy, options);
  std::vector<std::int32_t> ids;
  // No stretch of the text comes twice: equal contexts have equal scores, whose order is rounding.
  const bool table = model.config().positions == PositionKind::table;
  const int n = table ? static_cast<int>(model.config().max_positions) : 42;
  for (int i = 0; i < n; ++i) {
    ids.push_back(
        static_cast<std::int32_t>((i * i * 7 + 3 * i + i / 11) % model.config().vocab_size));
  }
  constexpr std::size_t kPrompt = 23;
  const std::span<const std::int32_t> all(ids);
  Outcome outcome;
  outcome.nll.resize(ids.size() - 1);
  session.begin(static_cast<std::int64_t>(ids.size()));
  const std::span<double> nll(outcome.nll);
  session.prefill(all.first(kPrompt), all.subspan(1, kPrompt), nll.first(kPrompt),
                  all.subspan(kPrompt));
  session.feed(all.subspan(kPrompt, ids.size() - 1 - kPrompt), all.subspan(kPrompt + 1),
               nll.subspan(kPrompt));
  outcome.logits.resize(static_cast<std::size_t>(model.config().vocab_size));
  session.last_logits(outcome.logits);
  for (std::int64_t layer = 0; layer < model.config().n_layers; ++layer) {
    for (std::int64_t head = 0; head < model.config().n_kv_heads; ++head) {
      outcome.kept.push_back(session.kept_positions(layer, head));
    }
  }
  outcome.evicted = session.evicted_entries();
  outcome.quantised = session.cache().quantised_rows();
  CHECK((policy == "full") == (outcome.evicted == 0));
  return outcome;
}

void check_outcomes(const Outcome& found, const Outcome& expected, double tolerance) {
  check_close(found.logits, expected.logits, tolerance);
  check_close(std::vector<float>(found.nll.begin(), found.nll.end()),
              std::vector<float>(expected.nll.begin(), expected.nll.end()), tolerance);
  CHECK(found.kept == expected.kept);
  CHECK(found.evicted == expected.evicted);
  CHECK(found.quantised == expected.quantised);
}

TEST_CASE("sessions on every tiny checkpoint under every policy equal the CPU backend's") {
#ifndef KVB_EMULATED_CUDA
  require_device();
#endif
  for (const char* checkpoint : kCheckpoints) {
    for (const std::string& policy : policies_to_compare()) {
      // The kinds of checkpoint and the kinds of policy have little to do with each other.
      const bool first = checkpoint == std::string("llama");
      if (!first && policy != "full" && policy != "sink2+7") continue;
      if (left_out(policy)) continue;
      CAPTURE(checkpoint);
      CAPTURE(policy);
      CpuBackend cpu(1);
      CudaBackend cuda(1);
      const auto run = [&](Backend& backend) {
        return run_session(backend, tiny_model(checkpoint), policy);
      };
      check_outcomes(run(cuda), run(cpu), 1e-4);
    }
  }
}

TEST_CASE("every family gives the same on both backends") {
#ifndef KVB_EMULATED_CUDA
  require_device();
#endif
  for (const std::filesystem::path& folder : family_checkpoints()) {
    CAPTURE(folder.filename().string());
    for (const std::string policy :
         {"full", "sink:sinks=2,recent=7,positions=original", "h2o:heavy=5,recent=4",
          "snapkv:capacity=9,window=4,kernel=3"}) {
      if (left_out(policy)) continue;
      CAPTURE(policy);
      CpuBackend cpu(1);
      CudaBackend cuda(1);
      const auto run = [&](Backend& backend) { return run_session(backend, folder, policy); };
      check_outcomes(run(cuda), run(cpu), 1e-4);
    }
  }
}

TEST_CASE("a bf16 cache gives both backends the same losses") {
#ifndef KVB_EMULATED_CUDA
  require_device();
#endif
  for (const char* policy : {"full", "sink2+7"}) {
    CpuBackend cpu(1);
    CudaBackend cuda(1);
    const auto run = [&](Backend& backend) {
      return run_session(backend, tiny_model("llama"), policy, {.kv_dtype = DType::bf16});
    };
    check_outcomes(run(cuda), run(cpu), 2e-3);
  }
}

TEST_CASE("quantised storage gives both backends the same, under eviction too") {
#ifndef KVB_EMULATED_CUDA
  require_device();
#endif
  for (const DType kv_dtype : {DType::f32, DType::bf16}) {
    for (const std::string policy :
         {"full", "sink2+18", "h2o:heavy=10,recent=10", "snapkv:capacity=16,window=4,kernel=3",
          "knorm:capacity=20,timing=decode", "tova:capacity=20"}) {
      // A bf16 cache only under two: rounding to bf16 is not what differs between policies.
      if (kv_dtype == DType::bf16 && policy != "full" && policy != "sink2+18") continue;
      CAPTURE(policy);
      CpuBackend cpu(1);
      CudaBackend cuda(1);
      const auto run = [&](Backend& backend) {
        return run_session(
            backend, tiny_model("llama"), policy,
            {.kv_dtype = kv_dtype, .kivi = KiviOptions{.bits = 2, .group = 4, .residual = 8}});
      };
      const Outcome expected = run(cpu);
      CHECK(expected.quantised > 0);
      check_outcomes(run(cuda), expected, kv_dtype == DType::f32 ? 1e-4 : 2e-3);
    }
  }
}

TEST_CASE("softmax off by one gives both backends the same, and not what plain softmax gives") {
#ifndef KVB_EMULATED_CUDA
  require_device();
#endif
  for (const std::string policy :
       {"full", "sink2+7", "h2o:heavy=5,recent=4", "snapkv:capacity=9,window=4,kernel=3"}) {
    CAPTURE(policy);
    CpuBackend cpu(1);
    CudaBackend cuda(1);
    const auto run = [&](Backend& backend, bool off_by_one) {
      return run_session(backend, tiny_model("llama"), policy, {.softmax_off_by_one = off_by_one});
    };
    const Outcome expected = run(cpu, true);
    check_outcomes(run(cuda, true), expected, 1e-4);
    CHECK(expected.nll != run(cuda, false).nll);
  }
}

TEST_CASE("learned sinks stand before the text on both backends") {
#ifndef KVB_EMULATED_CUDA
  require_device();
#endif
  const TempDir directory;
  std::vector<float> rows(2 * 16);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = 0.1f * static_cast<float>(i % 7) - 0.3f;
  const SinkSource sinks{
      .file = directory.write("sinks.safetensors",
                              SafetensorsBuilder().add_f32("sinks", {2, 16}, rows).bytes())};
  for (const char* policy : {"sink2+7", "kvzip:capacity=9,chunk=6,sinks=2", "recompute8"}) {
    CAPTURE(std::string(policy));
    CpuBackend cpu(1);
    CudaBackend cuda(1);
    const auto run = [&](Backend& backend, const SinkSource& source) {
      return run_session(backend, tiny_model("llama"), policy, {}, source);
    };
    const Outcome expected = run(cpu, sinks);
    check_outcomes(run(cuda, sinks), expected, 1e-4);
    CHECK(expected.nll != run(cpu, {}).nll);
  }
}

}  // namespace
}  // namespace kvbench::test
