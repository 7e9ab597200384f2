// A model over two and three emulated devices: the losses and kept entries of one, each device with
// its share of the memory, and every crossing ordered by events.
#include "backend/split/split_backend.hpp"
#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/kernels/parity.hpp"
#include "tests/support/random_model.hpp"

namespace kvbench::test {
namespace {

constexpr RandomModelShape kShape{
    .n_layers = 5, .n_kv_heads = 2, .group = 3, .head_dim = 8, .hidden = 32};
constexpr std::int64_t kPrompt = 30;
constexpr std::int64_t kTokens = 50;

struct Outcome {
  std::vector<double> nll;
  std::vector<std::vector<std::int32_t>> kept;  // [layer * kv_heads + kv_head]
  bool operator==(const Outcome&) const = default;
};

Outcome run(Backend& backend, const TempDir& directory, const std::string& policy) {
  const Model model = Model::load(directory.path(), backend, DType::f32);
  const ConfiguredPolicy configured = make_policy(policy);
  Session session(model, backend, *configured.policy, {.chunk = 20});
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i <= kTokens; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * i * 7 + 3 * i + i / 11) % kShape.vocab));
  }
  const std::span<const std::int32_t> all(ids);
  Outcome outcome;
  outcome.nll.resize(kTokens);
  const std::span<double> nll(outcome.nll);
  session.begin(kTokens);
  session.prefill(all.first(kPrompt), all.subspan(1, kPrompt), nll.first(kPrompt));
  session.feed(all.subspan(kPrompt, kTokens - kPrompt), all.subspan(kPrompt + 1),
               nll.subspan(kPrompt));
  for (std::int64_t layer = 0; layer < kShape.n_layers; ++layer) {
    for (std::int64_t head = 0; head < kShape.n_kv_heads; ++head) {
      outcome.kept.push_back(session.kept_positions(layer, head));
    }
  }
  return outcome;
}

std::unique_ptr<Backend> over_devices(int n) {
  std::vector<std::unique_ptr<Backend>> devices;
  for (int i = 0; i < n; ++i) {
    devices.push_back(std::make_unique<CudaBackend>(1, CudaOptions{.device = i}));
  }
  return std::make_unique<SplitBackend>(std::move(devices));
}

TEST_CASE("several devices give the losses and kept entries of one") {
  const TempDir directory;
  write_random_llama(directory, kShape, 5);
  emulation::set_device_count(3);
  for (const char* policy : {"full", "window9", "sink2+7", "h2o:heavy=5,recent=4",
                             "snapkv:capacity=9,window=4,kernel=3"}) {
    CAPTURE(std::string(policy));
    CudaBackend one(1);
    const Outcome expected = run(one, directory, policy);
    for (const int n : {2, 3}) {
      CAPTURE(n);
      CHECK(run(*over_devices(n), directory, policy) == expected);
    }
  }
  emulation::set_device_count(1);
}

TEST_CASE("layers are shared by their bytes: no device holds much more than its part") {
  const TempDir directory;
  RandomModelShape shape = kShape;
  shape.n_layers = 8;
  shape.hidden = 128;
  shape.ffn = 512;
  write_random_llama(directory, shape, 5);
  emulation::set_device_count(2);
  {
    const auto used = [](int device) { return emulation::allocated_bytes(device); };
    const auto backend = over_devices(2);
    const std::size_t before[2] = {used(0), used(1)};
    const Model model = Model::load(directory.path(), *backend, DType::f32);
    const auto total = static_cast<double>(model.weight_bytes());
    for (const int device : {0, 1}) {
      CAPTURE(device);
      const auto held = static_cast<double>(used(device) - before[device]);
      CHECK(held > 0.4 * total);
      CHECK(held < 0.6 * total);
    }
  }
  emulation::set_device_count(1);
}

TEST_CASE("a device that is not there is an error that says how many there are") {
  CHECK_THROWS_WITH_AS(CudaBackend(1, CudaOptions{.device = 3}),
                       "CUDA device 3: this machine has 1 (numbered from 0)", DeviceError);
}

}  // namespace
}  // namespace kvbench::test
