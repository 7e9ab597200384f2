// `attention` as a task: its settings, and from them to an AttentionRequest.
#include <array>
#include <limits>

#include "task/attention.hpp"
#include "task/run_options.hpp"
#include "task/task.hpp"
#include "task/text_options.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMaxTokens = INT64_C(1) << 31;
constexpr std::int64_t kDryRunPrompt = 128;

class AttentionTask final : public Task {
 public:
  void declare(SettingSet& settings) override;
  void check() override { check_attention(resolve()); }
  TaskEstimate estimate(TaskContext&) override { return estimate_attention(resolve()); }
  std::vector<RunRecord> run(TaskContext& context) override {
    return run_attention(resolve(), context);
  }

 private:
  AttentionRequest resolve() const;

  RunOptions run_;
  TextOptions text_;
  AttentionRequest asked_;
};

void AttentionTask::declare(SettingSet& settings) {
  run_.declare(settings);
  text_.declare(settings);
  Setting& prompt = settings.integer("prompt", asked_.prompt, 2, kMaxTokens, "Tokens to run");
  prompt.required = true;
  prompt.dry_run = kDryRunPrompt;
  settings.integer("offset", asked_.offset, 0, kMaxTokens, "First token of the text to use");
  settings.integer("after", asked_.profile.after, 0, kMaxTokens,
                   "Queries behind this position count");
  settings.integer("recent", asked_.profile.recent, 1, kMaxTokens,
                   "Newest entries, the query's own included, that are no sinks");
  settings.integer("map", asked_.profile.map, 0, 4096,
                   "Queries and keys of the averaged maps in the record");
  settings.integer("replace_first", asked_.replace_first, 0, kMaxTokens,
                   "Above 0: a second pass, with so many first tokens replaced");
  settings.integer("replace_id", asked_.replace_id, -1, std::numeric_limits<std::int32_t>::max(),
                   "What they are replaced by (-1: the tokenizer's line break)");
}

AttentionRequest AttentionTask::resolve() const {
  AttentionRequest request = asked_;
  static_cast<RunSettings&>(request) = run_.resolve();
  request.tokens = text_.resolve();
  return request;
}

}  // namespace

TaskInfo attention_task() {
  static const std::array kColumns{
      ReportColumn{"policy", "", CellFormat::policy},
      ReportColumn{"first token", "first1_mass", CellFormat::measured},
      ReportColumn{"first 4", "first4_mass", CellFormat::measured},
      ReportColumn{"recent", "recent_mass", CellFormat::measured},
      ReportColumn{"rest", "rest_mass", CellFormat::measured},
      ReportColumn{"entropy (nat)", "attention_entropy", CellFormat::measured},
      ReportColumn{"first 4, replaced", "first4_mass_replaced", CellFormat::measured},
  };
  return {.name = "attention",
          .summary = "Where a model's attention goes: first, newest and other entries, entropy",
          .examples =
              "  kvbench attention --model llama-2-7b --data novel.txt --prompt 4096 --after 128 "
              "--out results/attention\n"
              "  kvbench attention --model llama-2-7b --data novel.txt --prompt 4096 "
              "--replace-first 4 --json",
          .make = []() -> std::unique_ptr<Task> { return std::make_unique<AttentionTask>(); },
          .columns = kColumns};
}

}  // namespace kvbench
