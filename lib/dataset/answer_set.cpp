// Definitions of answer_set.hpp.
#include "dataset/answer_set.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "dataset/json_lines.hpp"
#include "dataset/text_files.hpp"
#include "io/json_reader.hpp"
#include "io/sha256.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

const std::array<std::string, 8> kKeys{"input",       "context", "answers", "dataset",
                                       "all_classes", "length",  "_id",     "language"};

// The texts of an array; empty where the key is absent or null.
std::vector<std::string> texts_of(const JsonReader& reader, const std::string& key) {
  const json* value = reader.find(key);
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_array()) {
    reader.fail(key, fmt::format("expected an array of strings, found {}", value->type_name()));
  }
  std::vector<std::string> texts;
  for (const json& text : *value) {
    if (!text.is_string()) {
      reader.fail(fmt::format("{}[{}]", key, texts.size()),
                  fmt::format("expected a string, found {}", text.type_name()));
    }
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

AnswerSample read_sample(const json& row, const std::string& where, std::int64_t number) {
  const JsonReader reader(row, where, JsonErrors::data, NullRule::as_absent);
  reader.reject_unknown_keys(kKeys);
  AnswerSample sample;
  sample.where = where;
  sample.dataset = reader.require_string("dataset");
  if (sample.dataset.empty()) reader.fail("dataset", "expected a name, found an empty string");
  sample.input = reader.require_string("input");
  sample.context = reader.require_string("context");
  sample.answers = texts_of(reader, "answers");
  if (sample.answers.empty()) reader.fail("answers", "expected at least one answer, found none");
  sample.classes = texts_of(reader, "all_classes");
  sample.language = reader.optional_string("language").value_or("");
  sample.id = reader.optional_string("_id").value_or(fmt::format("line {}", number));
  reader.optional_int("length", 0, std::numeric_limits<std::int64_t>::max());
  return sample;
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  if (std::filesystem::is_regular_file(path)) return {path};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file() && entry.path().extension() == ".jsonl") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end(), [](const auto& left, const auto& right) {
    return left.filename().native() < right.filename().native();
  });
  if (files.empty()) data_error("{}: the folder holds no .jsonl file", path.string());
  return files;
}

}  // namespace

std::vector<AnswerSample> parse_answer_samples(std::string_view content, const std::string& file) {
  std::vector<AnswerSample> samples;
  read_json_lines(content, file,
                  [&](const json& row, const std::string& where, std::int64_t number) {
                    samples.push_back(read_sample(row, where, number));
                    return true;
                  });
  return samples;
}

AnswerSet open_answer_set(const std::string& path) {
  std::error_code failure;
  if (path.empty() || !std::filesystem::exists(path, failure)) {
    config_error("data \"{}\": no such file or folder", path);
  }
  AnswerSet set;
  const std::filesystem::path found = std::filesystem::canonical(path);
  set.name = found.stem().string();
  set.path = found.string();
  const auto files = files_of(found);
  Sha256 all;
  for (const auto& file : files) {
    const std::string content = read_bytes(file);
    const std::string hash = sha256_hex(content);
    all.update(hash + "\n");
    if (files.size() == 1) set.content_sha256 = hash;
    set.bytes += static_cast<std::int64_t>(content.size());
    for (AnswerSample& sample : parse_answer_samples(content, file.string())) {
      set.samples.push_back(std::move(sample));
    }
  }
  if (files.size() > 1) set.content_sha256 = all.hex();
  if (set.samples.empty()) data_error("{}: holds no samples", set.path);
  return set;
}

}  // namespace kvbench
