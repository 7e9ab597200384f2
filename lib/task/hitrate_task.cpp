// `hitrate` as a task: its settings, and from them to a HitRateRequest.
#include <algorithm>
#include <array>
#include <iterator>

#include "io/line_list.hpp"
#include "task/hitrate.hpp"
#include "task/policy_list.hpp"
#include "task/run_options.hpp"
#include "task/task.hpp"
#include "task/text_options.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMaxTokens = INT64_C(1) << 31;
constexpr std::int64_t kDryRunPrompt = 64;

class HitRateTask final : public Task {
 public:
  void declare(SettingSet& settings) override;
  void check() override { check_hitrate(resolve()); }
  TaskEstimate estimate(TaskContext& context) override {
    return estimate_hitrate(resolve(), context);
  }
  std::vector<RunRecord> run(TaskContext& context) override {
    return run_hitrate(resolve(), context);
  }

 private:
  HitRateRequest resolve() const;

  RunOptions run_;
  PolicyList policies_;
  TextOptions text_;
  HitRateRequest asked_;
  std::string source_ = "text";
  std::string questions_file_;
  bool no_nll_ = false;
};

void HitRateTask::declare(SettingSet& settings) {
  run_.declare(settings);
  policies_.declare(settings);
  text_.declare(settings);
  Setting& prompt =
      settings.integer("prompt", asked_.prompt, 1, kMaxTokens, "Tokens of each prompt");
  prompt.required = true;
  prompt.dry_run = kDryRunPrompt;
  Setting& steps =
      settings.integer("steps", asked_.steps, 1, kMaxTokens, "Tokens fed after each prompt");
  steps.required = true;
  steps.dry_run = 2;
  settings.choice("source", source_, {"text", "greedy"},
                  "What is fed after the prompt: the text's own tokens, or the full cache's greedy "
                  "continuation");
  settings.integer("offset", asked_.offset, 0, kMaxTokens, "First token of a document to use");
  settings
      .integer("segments", asked_.segments, 1, kMaxTokens,
               "Prompts, one behind the other in the text")
      .dry_run = 1;
  settings.reals("theta", asked_.counting.thetas, 0.0, 1.0,
                 "Attention above which a position counts; the first is the headline");
  settings.integer("top_k", asked_.counting.top_k, 1, kMaxTokens,
                   "Positions with the largest attention, for the overlap");
  settings.integer("tail", asked_.tail, 0, kMaxTokens,
                   "Last tokens of the prompt that do not count, such as a policy's window");
  settings.texts("question", asked_.questions, "TEXT",
                 "Asked after the same prompt; repeat it, to see how much of the kept sets they "
                 "have in common");
  settings.text("questions_file", questions_file_, "File with one question per line").path =
      PathKind::file;
  settings.flag("no_nll", no_nll_,
                "Do not score the steps under the policies: sink and window then need no pass of "
                "their own");
}

HitRateRequest HitRateTask::resolve() const {
  HitRateRequest request = asked_;
  static_cast<RunSettings&>(request) = run_.resolve();
  request.tokens = text_.resolve();
  request.policies = policies_.resolve();
  request.strict = policies_.strict;
  request.greedy = source_ == "greedy";
  request.nll = !no_nll_;
  if (!questions_file_.empty()) {
    std::ranges::copy(read_line_list(questions_file_), std::back_inserter(request.questions));
  }
  return request;
}

}  // namespace

TaskInfo hitrate_task() {
  static const std::array kColumns{
      ReportColumn{"policy", "", CellFormat::policy},
      ReportColumn{"hit rate ± s.e.", "hit_rate", CellFormat::measured},
      ReportColumn{"without sinks", "hit_rate_after_sinks", CellFormat::real},
      ReportColumn{"mass recall ± s.e.", "mass_recall", CellFormat::measured},
      ReportColumn{"of the prompt", "prompt_mass_recall", CellFormat::real},
      ReportColumn{"top k", "top_k_overlap", CellFormat::real},
      ReportColumn{"nll ± s.e.", "nll_mean", CellFormat::measured},
      ReportColumn{"over full", "nll_increase", CellFormat::real},
      ReportColumn{"KV/full", "kept_share", CellFormat::ratio},
  };
  return {.name = "hitrate",
          .summary =
              "What a full cache attends to after a prompt, and how much of it each policy still "
              "holds",
          .examples =
              "  kvbench hitrate --model llama-2-7b --data novel.txt --prompt 2048 --steps 64 \\\n"
              "    --policy snapkv:capacity=512 --policy h2o:heavy=256,recent=256 --policy "
              "sink4+508\n"
              "  kvbench hitrate --model llama-2-7b --data novel.txt --prompt 2048 --steps 64 \\\n"
              "    --source greedy --policy snapkv:capacity=512 \\\n"
              "    --question 'Who is speaking?' --question 'Where are they?'",
          .make = []() -> std::unique_ptr<Task> { return std::make_unique<HitRateTask>(); },
          .columns = kColumns};
}

}  // namespace kvbench
