// Prompts as LongBench builds them: the whole text is tokenized; of a longer one the first and the
// last half of `max_length` tokens are decoded, joined, and tokenized once more. A chat's frame
// comes after that, and does not count.
#include "task/qa_items.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "config/parse_number.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"

namespace kvbench {
namespace {

class PromptMaker {
 public:
  PromptMaker(const QaRequest& request, const Tokenizer& tokenizer, const NeedleFrame& frame)
      : request_(request), tokenizer_(tokenizer), frame_(frame) {
    if (frame.chat && request.specials == SpecialTokens::text) {
      config_error("--specials text would spell out the chat template's tokens: give --chat never");
    }
    if (request.bos == "none" || request.bos == "auto") return;
    bos_ = static_cast<std::int32_t>(parse_int(
        request.bos, 0, std::numeric_limits<std::int32_t>::max(), "--bos (none, auto or an id)"));
  }

  QaItem make(const AnswerSample& sample, const QaDataset& dataset) const {
    QaItem item;
    item.sample = &sample;
    item.dataset = &dataset;
    const std::string question = dataset.prompt.after_context(sample);
    std::string text = dataset.prompt.before_context(sample) + sample.context + question;
    item.ids = encode(text, sample.where);
    item.whole_tokens = static_cast<std::int64_t>(item.ids.size());
    std::size_t question_bytes = question.size();
    if (request_.max_length > 0 && item.whole_tokens > request_.max_length) {
      item.truncated = true;
      const auto half = static_cast<std::size_t>(request_.max_length / 2);
      const std::span<const std::int32_t> ids(item.ids);
      const std::size_t led = bos_ ? 1 : 0;  // may be an ordinary token, and is put first anew
      const std::string head =
          tokenizer_.decode(ids.subspan(led, half - led), /*skip_special=*/true);
      const std::string tail = tokenizer_.decode(ids.last(half), /*skip_special=*/true);
      question_bytes = std::min(question_bytes, tail.size());
      text = head + tail;
      item.ids = encode(text, sample.where);
    }
    if (frame_.chat && dataset.chat) {
      item.ids = encode(frame_.before + text + frame_.after, sample.where);
      question_bytes += frame_.after.size();
    }
    if (item.ids.empty()) data_error("{}: the prompt has no token", sample.where);
    item.question_begin = last_tokens(item.ids, question_bytes);
    if (request_.question_hidden) check_hidden(item);
    EncodeOptions plain;
    plain.source = sample.where;
    item.answer = tokenizer_.encode(sample.answers.front(), plain);
    return item;
  }

 private:
  std::vector<std::int32_t> encode(const std::string& text, const std::string& where) const {
    EncodeOptions options;
    options.add_bos = request_.bos == "auto";
    options.specials = request_.specials;
    options.source = where;
    std::vector<std::int32_t> ids = tokenizer_.encode(text, options);
    if (bos_) ids.insert(ids.begin(), *bos_);
    return ids;
  }

  // The first of the tokens that hold the last `bytes` bytes. One that reaches into what stands
  // before them counts as theirs: nothing of a hidden question is shown.
  std::size_t last_tokens(const std::vector<std::int32_t>& ids, std::size_t bytes) const {
    std::size_t begin = ids.size();
    for (std::size_t held = 0; held < bytes && begin > 0;) {
      held += tokenizer_.token_bytes(ids[--begin]).size();
    }
    return begin;
  }

  static void check_hidden(const QaItem& item) {
    if (item.question_begin == item.ids.size()) {
      config_error("{}: the question cannot be hidden: nothing stands behind {{context}}",
                   item.sample->where);
    }
    if (item.question_begin == 0) {
      data_error("{}: the question cannot be hidden: the prompt holds nothing else",
                 item.sample->where);
    }
  }

  const QaRequest& request_;
  const Tokenizer& tokenizer_;
  const NeedleFrame& frame_;
  std::optional<std::int32_t> bos_;
};

// What a metric cannot use is known before anything is generated.
void check_answers(const AnswerSample& sample, const QaDataset& dataset) {
  try {
    best_score(*dataset.metric, "", sample.answers, sample.classes);
  } catch (const DataError& error) {
    data_error("{}: key answers: {}: {}", sample.where, dataset.metric->name, error.what());
  }
}

// As in the benchmark such an answer is never right, which is worth knowing.
bool is_no_class(const AnswerSample& sample) {
  const auto& classes = sample.classes;
  const auto is_class = [&](const std::string& answer) {
    return std::find(classes.begin(), classes.end(), answer) != classes.end();
  };
  return !classes.empty() && std::none_of(sample.answers.begin(), sample.answers.end(), is_class);
}

void check_datasets(const QaRequest& request, const AnswerSet& data) {
  for (const std::string& name : request.datasets) {
    const bool found =
        std::any_of(data.samples.begin(), data.samples.end(),
                    [&](const AnswerSample& sample) { return sample.dataset == name; });
    if (!found) config_error("dataset \"{}\": {} has no sample of it", printable(name), data.path);
  }
}

}  // namespace

std::unique_ptr<QaInput> read_qa_input(const QaRequest& request) {
  auto input = std::make_unique<QaInput>();
  input->prompts = read_qa_prompts(request.prompts);
  input->data = open_answer_set(request.data);
  check_datasets(request, input->data);
  input->tokenizer = Tokenizer::load(request.model);
  if (request.bos == "auto") input->warnings = input->tokenizer->warnings();
  input->frame = needle_frame(request.model, request.chat);
  const PromptMaker maker(request, *input->tokenizer, input->frame);
  std::map<std::string, std::int64_t> taken;
  std::int64_t without_class = 0;
  for (const AnswerSample& sample : input->data.samples) {
    const auto& names = request.datasets;
    if (!names.empty() && std::find(names.begin(), names.end(), sample.dataset) == names.end()) {
      continue;
    }
    if (request.samples > 0 && taken[sample.dataset] == request.samples) continue;
    ++taken[sample.dataset];
    const QaDataset& dataset = input->prompts.find(sample.dataset, sample.where);
    if (request.question_hidden && dataset.prompt.input_before_context()) {
      config_error(
          "{}: dataset {}: the question cannot be hidden: {{input}} stands before "
          "{{context}}",
          input->prompts.path, sample.dataset);
    }
    check_answers(sample, dataset);
    without_class += is_no_class(sample) ? 1 : 0;
    input->items.push_back(maker.make(sample, dataset));
  }
  if (without_class > 0) {
    input->warnings.push_back(fmt::format(
        "{} samples have no answer among their all_classes: none is ever right", without_class));
  }
  input->bos = request.bos == "auto" ? "none" : request.bos;
  if (request.bos == "auto" && input->tokenizer->bos_id()) {
    input->bos = std::to_string(*input->tokenizer->bos_id());
  }
  return input;
}

}  // namespace kvbench
