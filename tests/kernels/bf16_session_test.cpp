// Sessions in bf16 throughout, whose prompts run on tensor cores, against the CPU backend's.
#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/kernels/parity.hpp"
#include "tests/support/random_model.hpp"

namespace kvbench::test {
namespace {

constexpr std::int64_t kPrompt = 90;
constexpr std::int64_t kTokens = 96;

std::vector<double> losses(Backend& backend, const TempDir& directory, const std::string& policy,
                           std::int64_t vocab) {
  const Model model = Model::load(directory.path(), backend, DType::bf16);
  const ConfiguredPolicy configured = make_policy(policy);
  Session session(model, backend, *configured.policy, {.chunk = 40, .kv_dtype = DType::bf16});
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i <= kTokens; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * i * 7 + 3 * i + i / 11) % vocab));
  }
  const std::span<const std::int32_t> all(ids);
  std::vector<double> nll(kTokens);
  session.begin(kTokens);
  session.prefill(all.first(kPrompt), all.subspan(1, kPrompt), std::span(nll).first(kPrompt));
  session.feed(all.subspan(kPrompt, kTokens - kPrompt), all.subspan(kPrompt + 1),
               std::span(nll).subspan(kPrompt));
  return nll;
}

TEST_CASE("prompts in bf16 give both backends the same losses, up to bf16") {
#ifndef KVB_EMULATED_CUDA
  require_device();
#endif
  for (const std::int64_t head_dim : {64, 80}) {
    const RandomModelShape shape{
        .n_layers = 2, .n_kv_heads = 2, .group = 3, .head_dim = head_dim, .hidden = 48};
    const TempDir directory;
    write_random_llama(directory, shape, 7);
    for (const char* policy : {"full", "window50", "sink4+46", "snapkv:capacity=30,window=8"}) {
      CAPTURE(head_dim);
      CAPTURE(std::string(policy));
      CpuBackend cpu(1);
      CudaBackend cuda(1);
      const std::vector<double> expected = losses(cpu, directory, policy, shape.vocab);
      const std::vector<double> found = losses(cuda, directory, policy, shape.vocab);
      check_close(std::vector<float>(found.begin(), found.end()),
                  std::vector<float>(expected.begin(), expected.end()), 4 * kBf16Tolerance);
    }
  }
}

}  // namespace
}  // namespace kvbench::test
