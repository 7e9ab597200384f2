// Questions with reference answers, in the format of the LongBench benchmark: one JSON object a
// line, with the members input, context, answers, dataset and, optionally, all_classes, length, _id
// and language.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvbench {

struct AnswerSample {
  std::string dataset;
  std::string id;                    // "_id", else "line N"
  std::string input;                 // the question, or what else stands behind the context
  std::string context;               // what the question is about
  std::string language;              // as the file has it; may be empty
  std::vector<std::string> answers;  // any of them is right; never empty
  std::vector<std::string> classes;  // of a classification: every possible answer
  std::string where;                 // "FILE, line N", for messages
};

struct AnswerSet {
  std::string name;  // of the file or folder, without extension
  std::string path;  // absolute
  // SHA-256, hex, of the file's bytes; for a folder of the lines "<sha256 of file>\n" in order.
  std::string content_sha256;
  std::int64_t bytes = 0;
  std::vector<AnswerSample> samples;
};

// A .jsonl file, or all of a folder in byte order of their names. ConfigError when there is no such
// path, DataError that names file, line and key for what cannot be read.
AnswerSet open_answer_set(const std::string& path);

// The samples of one file's content.
std::vector<AnswerSample> parse_answer_samples(std::string_view content, const std::string& file);

}  // namespace kvbench
