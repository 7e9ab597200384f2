// Definitions of run_options.hpp.
#include "apps/kvbench/run_options.hpp"

#include <charconv>
#include <limits>

#include "apps/kvbench/options.hpp"
#include "backend/registry.hpp"
#include "cache/kv_format.hpp"
#include "core/error.hpp"
#include "io/mapped_file.hpp"
#include "report/environment.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMaxThreads = 1024;
constexpr std::int64_t kMaxChunk = 65536;

}  // namespace

RunSettings RunOptions::settings() const {
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
  settings.threads = threads > 0 ? static_cast<int>(threads) : usable_cpus();
  settings.seed = seed;
  return settings;
}

void add_run_options(CLI::App& command, RunOptions& options) {
  add_text(command, "--model", options.model, "Hugging Face checkpoint directory")->required();
  add_choice(command, "--dtype", options.dtype, {"f32", "bf16"},
             "Dtype of the matrix products; softmax, residual stream and loss are f32 or better");
  add_text(command, "--kv", options.kv,
           "Stored keys and values: same (the dtype of --dtype), f32, bf16, or quantised, as in "
           "kivi:bits=2,group=32,residual=128 (dtype=bf16: of the rows not quantised)");
  std::vector<std::string> names{"auto"};
  for (const BackendSpec& spec : backends()) names.emplace_back(spec.name);
  add_choice(command, "--backend", options.backend, names, "Where the model runs");
  add_int(command, "--threads", options.threads, 0, kMaxThreads,
          "Threads (0: the CPUs that affinity and cgroup quota allow)");
  add_int(command, "--chunk", options.chunk, 1, kMaxChunk,
          "Tokens per forward where the policy allows it; results do not depend on it");
  add_uint64(command, "--seed", options.seed, "Seed of everything random");
  command.add_flag("--softmax-off-by-one", options.softmax_off_by_one,
                   "Add 1 to every softmax denominator of the attention");
  add_text(command, "--sink-tensor", options.sink_tensor,
           "Tensor [hidden] or [n, hidden] of the checkpoint with learned sinks, embeddings that "
           "stand before every text");
  add_text(command, "--sink-file", options.sink_file,
           "Safetensors file with that tensor, where it is not part of the checkpoint");
}

std::vector<std::int32_t> to_ids(const std::vector<std::int64_t>& ids) {
  return {ids.begin(), ids.end()};
}

std::vector<std::int32_t> read_id_file(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  const char* text = reinterpret_cast<const char*>(file.data());
  const char* const end = text + file.size();
  std::vector<std::int32_t> ids;
  const auto is_separator = [](char c) {
    return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '[' || c == ']';
  };
  for (const char* at = text; at != end;) {
    if (is_separator(*at)) {
      ++at;
      continue;
    }
    std::int32_t id = 0;
    const auto [next, fault] = std::from_chars(at, end, id);
    if (fault != std::errc() || id < 0 || (next != end && !is_separator(*next))) {
      data_error("{}: byte {}: expected token ids from 0 to {}, separated by commas or blanks",
                 path, at - text, std::numeric_limits<std::int32_t>::max());
    }
    ids.push_back(id);
    at = next;
  }
  return ids;
}

}  // namespace kvbench
