// `bench` as a task: its settings, and from them to a BenchRequest.
#include <algorithm>
#include <array>
#include <memory>

#include "model/model_config.hpp"
#include "task/bench.hpp"
#include "task/policy_list.hpp"
#include "task/run_options.hpp"
#include "task/task.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMaxTokens = INT64_C(1) << 30;
constexpr std::int64_t kMaxStreams = 4096;
constexpr std::int64_t kDryRunDepth = 64;

class BenchTask final : public Task {
 public:
  void declare(SettingSet& settings) override;
  void check() override { check_bench(resolve()); }
  TaskEstimate estimate(TaskContext& context) override;
  std::vector<RunRecord> run(TaskContext& context) override {
    return run_bench(resolve(), context);
  }

 private:
  BenchRequest resolve() const;

  RunOptions run_;
  PolicyList policies_;
  BenchRequest request_;
};

void BenchTask::declare(SettingSet& settings) {
  run_.declare(settings);
  policies_.declare(settings);
  settings
      .integers(
          "depths", request_.depths, 1, kMaxTokens,
          "Prompt tokens; decoding is timed after each prompt. The headline numbers are those "
          "of the last one")
      .dry_run = kDryRunDepth;
  settings.integer("steps", request_.steps, 1, kMaxTokens, "Tokens decoded after each prompt")
      .dry_run = 2;
  settings
      .integer("repeats", request_.repeats, 1, 1000,
               "Counted repetitions; one more before them warms up")
      .dry_run = 1;
  settings.integer(
      "streams", request_.streams, 1, kMaxStreams,
      "Sequences of that depth each that are decoded side by side, one token of each in "
      "a forward pass");
}

BenchRequest BenchTask::resolve() const {
  BenchRequest request = request_;
  static_cast<RunSettings&>(request) = run_.resolve();
  request.policies = policies_.resolve();
  return request;
}

TaskEstimate BenchTask::estimate(TaskContext&) {
  const BenchRequest request = resolve();
  check_bench(request);
  std::int64_t per_round = 0;
  for (const std::int64_t depth : request.depths) per_round += depth + request.steps;
  const std::int64_t deepest = *std::ranges::max_element(request.depths) + request.steps;
  const auto n_policies = static_cast<std::int64_t>(request.policies.size());
  return {.tokens = request.streams * n_policies * (per_round * (request.repeats + 1) + deepest),
          .kv_bytes = request.streams * deepest *
                      read_model_config(request.model).kv_bytes_per_token(request.kv_dtype)};
}

}  // namespace

TaskInfo bench_task() {
  static const std::array kColumns{
      ReportColumn{"policy", "", CellFormat::policy},
      ReportColumn{"prefill tok/s", "prefill_tokens_per_s", CellFormat::rate},
      ReportColumn{"first ms", "first_token_ms", CellFormat::real},
      ReportColumn{"decode tok/s", "decode_tokens_per_s", CellFormat::rate},
      ReportColumn{"p95 ms", "decode_ms_p95", CellFormat::real},
      ReportColumn{"x full", "decode_speedup", CellFormat::real},
      ReportColumn{"KV kept", "kv_bytes_live", CellFormat::bytes},
      ReportColumn{"KV peak", "kv_bytes_peak", CellFormat::bytes},
      ReportColumn{"GB/s", "decode_gb_per_s", CellFormat::real},
      ReportColumn{"of peak", "decode_share_of_peak", CellFormat::ratio},
      ReportColumn{"GFLOP/s", "prefill_gflop_per_s", CellFormat::rate},
      ReportColumn{"of peak", "prefill_share_of_peak", CellFormat::ratio},
  };
  return {.name = "bench",
          .summary = "Speed and memory of each policy: prefill, first token, decoding at a depth",
          .examples =
              "  kvbench bench --model llama-2-7b --dtype bf16 --depths 1024,8192 \\\n"
              "    --policy full --policy sink4+1020 --policy snapkv:capacity=1024 --out "
              "results/speed",
          .make = []() -> std::unique_ptr<Task> { return std::make_unique<BenchTask>(); },
          .columns = kColumns};
}

}  // namespace kvbench
