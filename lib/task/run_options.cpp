// Definitions of run_options.hpp.
#include "task/run_options.hpp"

#include <algorithm>
#include <vector>

#include "backend/registry.hpp"
#include "cache/kv_format.hpp"
#include "core/error.hpp"
#include "report/environment.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMaxThreads = 1024;
constexpr std::int64_t kMaxDevice = 62;
constexpr std::int64_t kMaxChunk = 65536;

std::vector<int> chosen_devices(std::int64_t device, const std::vector<std::int64_t>& several) {
  if (device != 0 && !several.empty()) config_error("--device and --devices: give one of them");
  std::vector<int> chosen(several.begin(), several.end());
  if (device != 0) chosen = {static_cast<int>(device)};
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (std::find(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(i), chosen[i]) !=
        chosen.begin() + static_cast<std::ptrdiff_t>(i)) {
      config_error("--devices: device {} is named twice", chosen[i]);
    }
  }
  return chosen;
}

}  // namespace

void RunOptions::declare(SettingSet& settings) {
  Setting& checkpoint = settings.text("model", model, "Hugging Face checkpoint directory");
  checkpoint.required = true;
  checkpoint.path = PathKind::file;
  settings.choice("dtype", dtype, {"f32", "bf16"},
                  "Dtype of the matrix products; softmax, residual stream and loss are f32 or "
                  "better");
  settings.text("kv", kv,
                "Stored keys and values: same (the dtype of --dtype), f32, bf16, or quantised, as "
                "in kivi:bits=2,group=32,residual=128 (dtype=bf16: of the rows not quantised)");
  std::vector<std::string> names{"auto"};
  for (const BackendSpec& spec : backends()) names.emplace_back(spec.name);
  settings.choice("backend", backend, std::move(names), "Where the model runs").open_choices = true;
  settings.integer("device", device, 0, kMaxDevice, "GPU, counted from 0");
  settings.integers("devices", devices, 0, kMaxDevice,
                    "GPUs that share the model's layers, as in 0,1, in place of --device");
  settings.integer("threads", threads, 0, kMaxThreads,
                   "Threads (0: the CPUs that affinity and cgroup quota allow)");
  settings.integer("chunk", chunk, 1, kMaxChunk,
                   "Tokens per forward where the policy allows it; results do not depend on it");
  settings.seed("seed", seed, "Seed of everything random");
  settings.flag("softmax_off_by_one", softmax_off_by_one,
                "Add 1 to every softmax denominator of the attention");
  settings.text("sink_tensor", sink_tensor,
                "Tensor [hidden] or [n, hidden] of the checkpoint with learned sinks, embeddings "
                "that stand before every text");
  settings
      .text("sink_file", sink_file,
            "Safetensors file with that tensor, where it is not part of the checkpoint")
      .path = PathKind::file;
}

RunSettings RunOptions::resolve() const {
  RunSettings settings;
  settings.model = model;
  settings.chunk = chunk;
  settings.dtype = dtype == "bf16" ? DType::bf16 : DType::f32;
  const KvFormat format = parse_kv_format(kv, settings.dtype);
  settings.kv_dtype = format.dtype;
  settings.kivi = format.kivi;
  settings.softmax_off_by_one = softmax_off_by_one;
  settings.sinks = {sink_tensor, sink_file};
  settings.backend = backend;
  settings.devices = chosen_devices(device, devices);
  settings.threads = threads > 0 ? static_cast<int>(threads) : usable_cpus();
  settings.seed = seed;
  return settings;
}

}  // namespace kvbench
