// `qa` as a task: its settings, and from them to a QaRequest.
#include <array>

#include "task/policy_list.hpp"
#include "task/qa.hpp"
#include "task/run_options.hpp"
#include "task/task.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMaxTokens = INT64_C(1) << 40;
constexpr std::int64_t kDryRunLength = 256;

class QaTask final : public Task {
 public:
  void declare(SettingSet& settings) override;
  void check() override { check_qa(resolve()); }
  TaskEstimate estimate(TaskContext&) override { return estimate_qa(resolve()); }
  std::vector<RunRecord> run(TaskContext& context) override { return run_qa(resolve(), context); }

 private:
  QaRequest resolve() const;

  RunOptions run_;
  PolicyList policies_;
  QaRequest request_;
  std::string question_ = "visible";
  std::string specials_ = "parse";
  std::string chat_ = "auto";
};

void QaTask::declare(SettingSet& settings) {
  run_.declare(settings);
  policies_.declare(settings);
  Setting& data = settings.text(
      "data", request_.data, "Questions: a .jsonl file in LongBench's format, or a folder of them");
  data.required = true;
  data.path = PathKind::file;
  settings
      .text("prompts", request_.prompts,
            "Prompts, limits and metrics by dataset, in place of configs/qa_prompts.json")
      .path = PathKind::file;
  settings.texts("dataset", request_.datasets, "NAME", "Only samples of this dataset");
  Setting& samples = settings.integer("samples", request_.samples, 0, kMaxTokens,
                                      "The first so many samples of each dataset (0: all)");
  samples.dry_run = 1;
  samples.zero_is_all = true;
  Setting& length =
      settings.integer("max_length", request_.max_length, 0, kMaxTokens,
                       "Tokens of a prompt; longer ones lose their middle (0: any length)");
  length.dry_run = kDryRunLength;
  length.zero_is_all = true;
  settings.choice("question", question_, {"visible", "hidden"},
                  "Whether the policy sees the question when it compresses the context");
  settings.choice("chat", chat_, {"auto", "never", "always"},
                  "Put prompts that are meant for it into the checkpoint's chat template");
  settings.text("bos", request_.bos,
                "First token of each prompt: none, auto (what the tokenizer adds) or an id");
  settings.choice("specials", specials_, {"text", "parse"},
                  "Special tokens spelled out in a prompt: plain text, or parsed to their ids");
}

QaRequest QaTask::resolve() const {
  QaRequest request = request_;
  static_cast<RunSettings&>(request) = run_.resolve();
  request.policies = policies_.resolve();
  request.strict = policies_.strict;
  request.question_hidden = question_ == "hidden";
  request.specials = specials_ == "parse" ? SpecialTokens::parse : SpecialTokens::text;
  request.chat = chat_ == "always"  ? ChatUse::always
                 : chat_ == "never" ? ChatUse::never
                                    : ChatUse::automatic;
  return request;
}

}  // namespace

TaskInfo qa_task() {
  static const std::array kColumns{
      ReportColumn{"policy", "", CellFormat::policy},
      ReportColumn{"score ± s.e.", "score", CellFormat::measured},
      ReportColumn{"- full", "score_minus_full", CellFormat::measured},
      ReportColumn{"samples", "samples", CellFormat::count},
      ReportColumn{"prompt", "prompt_tokens_mean", CellFormat::count},
      ReportColumn{"kept", "kept_mean", CellFormat::count},
      ReportColumn{"prefill tok/s", "prefill_tokens_per_s", CellFormat::rate},
      ReportColumn{"decode tok/s", "decode_tokens_per_s", CellFormat::rate},
      ReportColumn{"KV peak", "kv_bytes_peak", CellFormat::bytes},
  };
  return {.name = "qa",
          .summary = "Questions about long contexts (LongBench's format): scores of greedy answers",
          .examples =
              "  kvbench qa --model llama-3.1-8b-instruct --data longbench/hotpotqa.jsonl \\\n"
              "    --max-length 7500 --policy full --policy snapkv:capacity=1024 --out results/qa\n"
              "  kvbench qa --model llama-3.1-8b-instruct --data longbench --samples 50 \\\n"
              "    --question hidden --policy full --policy h2o:heavy=512,recent=512 --json",
          .make = []() -> std::unique_ptr<Task> { return std::make_unique<QaTask>(); },
          .columns = kColumns};
}

}  // namespace kvbench
