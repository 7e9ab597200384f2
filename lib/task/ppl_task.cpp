// `ppl` as a task: its settings, and from them to a PplRequest.
#include <array>
#include <limits>

#include "core/error.hpp"
#include "model/model_config.hpp"
#include "task/policy_list.hpp"
#include "task/ppl.hpp"
#include "task/run_options.hpp"
#include "task/task.hpp"
#include "task/text_options.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMaxTokens = INT64_C(1) << 40;
constexpr std::int64_t kMaxStreams = 4096;
constexpr std::int64_t kDryRunPrompt = 40;
constexpr std::int64_t kDryRunScore = 4;

class PplTask final : public Task {
 public:
  void declare(SettingSet& settings) override;
  void check() override { check_ppl(resolve()); }
  TaskEstimate estimate(TaskContext& context) override { return estimate_ppl(resolve(), context); }
  std::vector<RunRecord> run(TaskContext& context) override { return run_ppl(resolve(), context); }

 private:
  PplRequest resolve() const;

  RunOptions run_;
  PolicyList policies_;
  TextOptions text_;
  std::string protocol_ = "stream";
  ProtocolOptions cut_;
  std::int64_t prefix_id_ = -1;
  std::string documents_ = "reset";
  std::int64_t streams_ = 1;
};

void PplTask::declare(SettingSet& settings) {
  run_.declare(settings);
  policies_.declare(settings);
  text_.declare(settings);
  std::vector<std::string> protocols;
  for (const PplProtocol& protocol : ppl_protocols()) protocols.emplace_back(protocol.name);
  settings.choice("protocol", protocol_, std::move(protocols),
                  "How the text is cut into stretches that are run and scored");
  settings.integer("window", cut_.window, 0, kMaxTokens, "Tokens per window");
  settings.integer("stride", cut_.stride, 0, kMaxTokens,
                   "Tokens from one window to the next (0: a whole window)");
  settings.integer("prompt", cut_.prompt, 0, kMaxTokens, "Protocol continue: tokens of each prompt")
      .dry_run = kDryRunPrompt;
  settings
      .integer("score", cut_.score, 0, kMaxTokens,
               "Protocol continue: tokens scored after each prompt")
      .dry_run = kDryRunScore;
  settings.integer("prefix_id", prefix_id_, -1, std::numeric_limits<std::int32_t>::max(),
                   "Id before the text (rolling) or over each chunk's first id (llamacpp); -1: "
                   "none");
  settings.choice("documents", documents_, {"reset", "carry"},
                  "An empty cache for each document, or one cache over all");
  settings.integer(
      "streams", streams_, 1, kMaxStreams,
      "Segments (documents, prompts with continuations) that go through the model side "
      "by side, each with its own cache; results do not depend on it");
}

PplRequest PplTask::resolve() const {
  PplRequest request;
  static_cast<RunSettings&>(request) = run_.resolve();
  request.tokens = text_.resolve();
  request.policies = policies_.resolve();
  request.strict = policies_.strict;
  request.protocol = protocol_;
  request.protocol_options = cut_;
  request.documents = documents_ == "carry" ? DocumentMode::carry : DocumentMode::reset;
  request.streams = streams_;
  if (prefix_id_ >= 0) {
    request.protocol_options.prefix_id = static_cast<std::int32_t>(prefix_id_);
    request.protocol_options.force_prefix = true;
  } else if (protocol_ == "rolling") {
    config_error("protocol rolling: --prefix-id is missing (the id that stands before the text)");
  }
  return request;
}

}  // namespace

TaskInfo ppl_task() {
  static const std::array kColumns{
      ReportColumn{"policy", "", CellFormat::policy},
      ReportColumn{"ppl ± s.e.", "ppl", CellFormat::measured},
      ReportColumn{"bits/byte", "bits_per_byte", CellFormat::real},
      ReportColumn{"tokens", "tokens_scored", CellFormat::count},
      ReportColumn{"tok/s", "tokens_per_s", CellFormat::rate},
      ReportColumn{"KV kept", "kv_bytes_live", CellFormat::bytes},
      ReportColumn{"KV peak", "kv_bytes_peak", CellFormat::bytes},
      ReportColumn{"KV/full", "kv_ratio_to_full", CellFormat::ratio},
      ReportColumn{"ppl/full", "ratio_to_full", CellFormat::ratio},
  };
  return {
      .name = "ppl",
      .summary =
          "Perplexity of a text under each policy, the evicted cache feeding every prediction",
      .examples =
          "  kvbench ppl --model llama-2-7b --data pg19-test --tokens 65536 --documents carry \\\n"
          "    --policy full --policy window1024 --policy sink4+1020 --dtype bf16 --out "
          "results/pg19\n"
          "  kvbench ppl --model llama-2-7b --data novel.txt --policy sink4+252 --json\n"
          "  kvbench ppl --model llama-2-7b --data novel.txt --protocol continue --prompt 2048 \\\n"
          "    --score 256 --policy full --policy h2o:heavy=256,recent=256",
      .make = []() -> std::unique_ptr<Task> { return std::make_unique<PplTask>(); },
      .columns = kColumns};
}

}  // namespace kvbench
