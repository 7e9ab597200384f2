// Definitions of report/record_store.hpp.
#include "report/record_store.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "config/config_hash.hpp"
#include "core/error.hpp"
#include "io/json_reader.hpp"
#include "report/durable_file.hpp"
#include "report/json_reporter.hpp"

namespace kvbench {
namespace {

constexpr const char* kIndexName = "index.jsonl";
constexpr const char* kWithdrawn = "withdrawn";

bool is_whole_json(std::string_view line) {
  return nlohmann::json::accept(line);
}

// Where the last line starts that no newline ends; the text's end when there is none.
std::size_t open_line_start(std::string_view text) {
  const std::size_t newline = text.rfind('\n');
  return newline == std::string_view::npos ? 0 : newline + 1;
}

// Makes the index end in a newline: a whole last line gets one, a cut one goes. Returns a warning
// or "".
std::string repair(LockedLineFile& index, const std::filesystem::path& path) {
  const std::string text = index.read_all();
  const std::size_t start = open_line_start(text);
  if (start == text.size()) return "";
  if (is_whole_json(std::string_view(text).substr(start))) {
    index.append("\n");
    return "";
  }
  index.truncate(start);
  return fmt::format(
      "{}: the last line was cut short; {} bytes removed, that run counts as not done",
      path.string(), text.size() - start);
}

// An ok line outlives later errors of the same configuration; else the later line counts.
void merge(IndexContents& contents, IndexEntry entry) {
  const auto earlier =
      std::find_if(contents.entries.begin(), contents.entries.end(),
                   [&](const IndexEntry& other) { return other.config_hash == entry.config_hash; });
  if (earlier == contents.entries.end()) {
    contents.entries.push_back(std::move(entry));
    return;
  }
  if (earlier->ok && entry.ok) {
    contents.warnings.push_back(
        fmt::format("{} ({}) finished more than once; the last result counts", entry.config_hash,
                    entry.policy));
  }
  if (entry.ok || !earlier->ok) *earlier = std::move(entry);
}

void add_line(IndexContents& contents, std::string_view line, const std::string& where) {
  const nlohmann::json row = parse_json(line, where);
  const JsonReader reader(row, where, JsonErrors::data);
  IndexEntry entry;
  entry.config_hash = reader.require_string("config_hash");
  const std::string status = reader.require_string("status");
  if (status == kWithdrawn) {
    std::erase_if(contents.entries,
                  [&](const IndexEntry& other) { return other.config_hash == entry.config_hash; });
    return;
  }
  if (status != "ok" && status != "error") {
    reader.fail("status", fmt::format("\"{}\" is neither \"ok\" nor \"error\"", status));
  }
  entry.ok = status == "ok";
  entry.policy = reader.require_string("policy");
  if (reader.presence("reason") == Presence::value) entry.reason = reader.require_string("reason");
  entry.row_json = line;
  merge(contents, std::move(entry));
}

}  // namespace

const IndexEntry* IndexContents::find_ok(const std::string& config_hash) const {
  for (const IndexEntry& entry : entries) {
    if (entry.ok && entry.config_hash == config_hash) return &entry;
  }
  return nullptr;
}

RecordStore::RecordStore(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  if (failure) {
    config_error("out: cannot create the folder {}: {}", folder_.string(), failure.message());
  }
  const std::filesystem::path path = folder_ / kIndexName;
  if (!std::filesystem::exists(path)) return;
  LockedLineFile index(path);
  const std::string warning = repair(index, path);
  if (!warning.empty()) warnings_.push_back(warning);
}

void RecordStore::write(const RunRecord& record) {
  KVB_CHECK(record.config_hash == config_hash_of_text(record.config_json),
            "config_hash {} is not that of the record's configuration", record.config_hash);
  const std::string row = dump_json(record_to_row(record));
  write_file_atomically(folder_ / (record.config_hash + ".json"),
                        dump_json(record_to_json(record), 2) + "\n");
  append_line(row);
}

void RecordStore::withdraw(const std::string& config_hash) {
  append_line(dump_json({{"config_hash", config_hash}, {"status", kWithdrawn}}));
  std::error_code failure;  // the line has said it already
  std::filesystem::remove(folder_ / (config_hash + ".json"), failure);
}

void RecordStore::append_line(const std::string& line) {
  const std::filesystem::path path = folder_ / kIndexName;
  LockedLineFile index(path);
  // Another process may have been killed while it wrote.
  const std::string warning = repair(index, path);
  if (!warning.empty()) warnings_.push_back(warning);
  index.append(line + "\n");
}

IndexContents RecordStore::read() const {
  const std::filesystem::path path = folder_ / kIndexName;
  if (!std::filesystem::exists(path)) return {};
  return parse_index(LockedLineFile(path).read_all(), path.string());
}

IndexContents parse_index(std::string_view text, const std::string& path) {
  IndexContents contents;
  const std::size_t open_line = open_line_start(text);
  std::size_t start = 0;
  for (int number = 1; start < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = text.substr(start, end - start);
    const std::string where = fmt::format("{}, line {}", path, number);
    const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    if (start == open_line && !is_whole_json(line)) {
      contents.warnings.push_back(where + ": cut short; that run counts as not done");
    } else if (!blank) {
      add_line(contents, line, where);
    }
    start = end + 1;
  }
  return contents;
}

}  // namespace kvbench
