// `needle` as a task: its settings, and from them to a NeedleRequest.
#include <fmt/format.h>

#include <array>

#include "core/error.hpp"
#include "task/needle.hpp"
#include "task/policy_list.hpp"
#include "task/run_options.hpp"
#include "task/task.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMaxTokens = INT64_C(1) << 40;
constexpr std::int64_t kDryRunLength = 256;
constexpr std::int64_t kMaxRepeats = 100000;

class NeedleTask final : public Task {
 public:
  void declare(SettingSet& settings) override;
  void check() override { check_needle(resolve()); }
  TaskEstimate estimate(TaskContext&) override { return estimate_needle(resolve()); }
  std::vector<RunRecord> run(TaskContext& context) override {
    return run_needle(resolve(), context);
  }

 private:
  void declare_grid(SettingSet& settings);
  void declare_texts(SettingSet& settings);
  NeedleRequest resolve() const;

  RunOptions run_;
  PolicyList policies_;
  NeedleRequest grid_;
  std::vector<std::string> templates_;
  std::string data_;
  std::int64_t max_tokens_ = 0;
  std::string bos_ = "auto";
  std::string newline_ = "keep";
  std::string question_ = "visible";
  std::string length_counts_ = "prompt";
  std::string boundary_ = "sentence";
  std::string control_ = "yes";
  std::string chat_ = "auto";
};

void NeedleTask::declare(SettingSet& settings) {
  run_.declare(settings);
  policies_.declare(settings);
  declare_grid(settings);
  declare_texts(settings);
}

void NeedleTask::declare_grid(SettingSet& settings) {
  settings.integers("lengths", grid_.lengths, 1, kMaxTokens, "Tokens of the prompts, exactly")
      .dry_run = kDryRunLength;
  settings.choice("length_counts", length_counts_, {"prompt", "total"},
                  "What a length counts: the prompt, or the prompt and the answer's new_tokens");
  settings.reals("depths", grid_.depths, 0.0, 1.0, "Share of the haystack before the needle");
  settings.choice("boundary", boundary_, {"sentence", "token"},
                  "A needle stands before a sentence, or at the very token");
  settings
      .integer("repeats", grid_.repeats, 1, kMaxRepeats,
               "Prompts for each length and depth, with their own haystack and needle")
      .dry_run = 1;
  settings.choice("question", question_, {"visible", "hidden"},
                  "The policy compresses context and question, or the context before the question "
                  "is there");
  settings.integer("new_tokens", grid_.new_tokens, 0, 65536,
                   "Tokens of a greedy answer (0: what the right one takes and 4 more)");
  settings.choice("control", control_, {"yes", "no"},
                  "Ask each question without its needle, too, once for all depths");
  settings.flag("allow_beyond_max", grid_.allow_beyond_max,
                "Prompts longer than the model's context are no error");
}

void NeedleTask::declare_texts(SettingSet& settings) {
  Setting& data = settings.text(
      "data", data_, "Haystack: a file, a folder of .txt, a .jsonl, a manifest, or its name");
  data.required = true;
  data.path = PathKind::file_or_name;
  settings.integer("tokens", max_tokens_, 0, kMaxTokens,
                   "Use the haystack's first so many tokens (0: all)");
  settings.choice("newline", newline_, {"keep", "lf"},
                  "Line ends of the haystack: as they are, or CRLF read as LF");
  std::string names;
  for (const NeedleTemplate& row : needle_templates()) {
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", row.name, row.summary);
  }
  settings.texts("template", templates_, "NAME",
                 "What is hidden and asked for; may be repeated; passkey by default: " + names);
  settings.text("needle", grid_.own.needle, "Template sentence: a needle of your own");
  settings.text("question_text", grid_.own.question, "Template sentence: its question");
  settings.text("lead", grid_.own.lead, "Template sentence: how the answer begins");
  settings.texts("answer", grid_.own.answers, "TEXT",
                 "Template sentence: what a right answer holds; repeat it for several facts");
  settings.choice("chat", chat_, {"auto", "never", "always"},
                  "Put the prompt into the checkpoint's chat template");
  settings.text("bos", bos_,
                "First token of a prompt that is no chat: none, auto (what the tokenizer adds) or "
                "an id");
}

NeedleRequest NeedleTask::resolve() const {
  NeedleRequest request = grid_;
  static_cast<RunSettings&>(request) = run_.resolve();
  request.policies = policies_.resolve();
  request.strict = policies_.strict;
  request.haystack.data = data_;
  request.haystack.max_tokens = max_tokens_;
  request.haystack.bos = bos_;
  request.haystack.corpus.newline = parse_newline(newline_);
  if (!templates_.empty()) request.templates = templates_;
  request.hidden = question_ == "hidden";
  request.length_is_total = length_counts_ == "total";
  request.between_sentences = boundary_ == "sentence";
  request.control = control_ == "yes";
  request.chat = chat_ == "always"  ? ChatUse::always
                 : chat_ == "never" ? ChatUse::never
                                    : ChatUse::automatic;
  return request;
}

}  // namespace

TaskInfo needle_task() {
  static const std::array kColumns{
      ReportColumn{"policy", "", CellFormat::policy},
      ReportColumn{"accuracy ± s.e.", "accuracy", CellFormat::measured},
      ReportColumn{"95 % from", "accuracy_low", CellFormat::ratio},
      ReportColumn{"to", "accuracy_high", CellFormat::ratio},
      ReportColumn{"digits", "leading_right_share", CellFormat::ratio},
      ReportColumn{"answer NLL", "answer_nll_mean", CellFormat::measured},
      ReportColumn{"without", "control_nll_mean", CellFormat::real},
      ReportColumn{"needle kept", "needle_kept", CellFormat::ratio},
      ReportColumn{"KV/full", "kv_ratio_to_full", CellFormat::ratio},
      ReportColumn{"prompts", "prompts", CellFormat::count},
  };
  return {
      .name = "needle",
      .summary = "Facts hidden in long prompts, asked for under each policy",
      .examples =
          "  kvbench needle --model llama-3-8b --data pg19-test --lengths 4096,8192,16384 \\\n"
          "    --depths 0.1,0.5,0.9 --repeats 5 --policy full --policy snapkv:capacity=1024 \\\n"
          "    --dtype bf16 --out results/needle\n"
          "  kvbench needle --model llama-3-8b --data novel.txt --template multi_key --question "
          "hidden \\\n"
          "    --policy expected_attention:keep=0.5 --json",
      .make = []() -> std::unique_ptr<Task> { return std::make_unique<NeedleTask>(); },
      .columns = kColumns};
}

}  // namespace kvbench
