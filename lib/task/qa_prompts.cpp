// Definitions of qa_prompts.hpp.
#include "task/qa_prompts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/nearest_name.hpp"
#include "core/printable.hpp"
#include "io/json_reader.hpp"
#include "io/mapped_file.hpp"
#include "io/sha256.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMaxNewTokens = 1 << 20;

const std::array<std::string, 6> kKeys{"prompt",     "max_new_tokens",  "metric",
                                       "first_line", "stop_at_newline", "chat"};

const AnswerMetric& metric_of(const JsonReader& reader) {
  const std::string name = reader.require_string("metric");
  if (const AnswerMetric* metric = find_answer_metric(name)) return *metric;
  std::vector<std::string> known;
  for (const AnswerMetric& metric : answer_metrics()) known.emplace_back(metric.name);
  reader.fail("metric", fmt::format("expected one of {}, found \"{}\"", fmt::join(known, ", "),
                                    printable(name)));
}

QaDataset read_dataset(const JsonReader& reader, const std::string& what) {
  reader.reject_unknown_keys(kKeys);
  return {.prompt = PromptTemplate(reader.require_string("prompt"), what),
          .max_new_tokens = reader.require_int("max_new_tokens", 1, kMaxNewTokens),
          .metric = &metric_of(reader),
          .first_line = reader.optional_bool("first_line").value_or(false),
          .stop_at_newline = reader.optional_bool("stop_at_newline").value_or(false),
          .chat = reader.optional_bool("chat").value_or(true)};
}

}  // namespace

PromptTemplate::PromptTemplate(std::string_view text, const std::string& what) {
  std::vector<Piece>* pieces = &before_;
  const auto append = [&](char c) {
    if (pieces->empty() || pieces->back().is_input) pieces->push_back({false, {}});
    pieces->back().text.push_back(c);
  };
  bool context = false;
  while (!text.empty()) {
    const char c = text.front();
    if ((c == '{' || c == '}') && text.size() > 1 && text[1] == c) {
      append(c);
      text.remove_prefix(2);
    } else if (c == '{') {
      const std::size_t end = text.find('}');
      if (end == std::string_view::npos) config_error("{}: a brace {{ that nothing closes", what);
      const std::string_view name = text.substr(1, end - 1);
      text.remove_prefix(end + 1);
      if (name == "input") {
        pieces->push_back({true, {}});
        input_before_context_ = input_before_context_ || !context;
      } else if (name == "context" && !context) {
        context = true;
        pieces = &after_;
      } else {
        config_error("{}: expected {{input}} or one {{context}}, found {{{}}}", what,
                     printable(name));
      }
    } else if (c == '}') {
      config_error("{}: a brace }} that closes nothing (a brace itself is written }}}})", what);
    } else {
      append(c);
      text.remove_prefix(1);
    }
  }
  if (!context) config_error("{}: the place of {{context}} is missing", what);
}

std::string PromptTemplate::fill(const std::vector<Piece>& pieces, const AnswerSample& sample) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.is_input ? sample.input : piece.text;
  return text;
}

std::string_view QaDataset::scored_part(std::string_view output) const {
  if (!first_line) return output;
  output.remove_prefix(std::min(output.find_first_not_of('\n'), output.size()));
  return output.substr(0, output.find('\n'));
}

const QaDataset& QaPrompts::find(const std::string& dataset, const std::string& where) const {
  const auto found = datasets.find(dataset);
  if (found != datasets.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, row] : datasets) known.push_back(name);
  const std::string nearest = nearest_name(dataset, known);
  config_error("{}: dataset \"{}\" is not in {}{}", where, printable(dataset), path,
               nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

QaPrompts parse_qa_prompts(std::string_view text, const std::string& path) {
  const nlohmann::json document = parse_json(text, path, {.errors = JsonErrors::config});
  const JsonReader reader(document, path, JsonErrors::config);
  QaPrompts prompts;
  prompts.path = path;
  prompts.sha256 = sha256_hex(text);
  for (const std::string& name : reader.names()) {
    const std::string what = fmt::format("{}: key {}.prompt", path, printable(name));
    prompts.datasets.emplace(name, read_dataset(reader.require_object(name), what));
  }
  return prompts;
}

QaPrompts read_qa_prompts(const std::string& path) {
  const std::string chosen = path.empty() ? KVBENCH_CONFIGS_FOLDER "/qa_prompts.json" : path;
  std::error_code failure;
  if (!std::filesystem::is_regular_file(chosen, failure)) {
    config_error("prompts \"{}\": no such file", chosen);
  }
  const MappedFile file = MappedFile::open(chosen);
  return parse_qa_prompts({reinterpret_cast<const char*>(file.data()), file.size()}, chosen);
}

}  // namespace kvbench
