// A folder of results: <config_hash>.json per run, and index.jsonl with one flat line per run.
// A record is on disk, whole, when write() returns; a crash can lose at most the run in progress.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/record.hpp"

namespace kvbench {

struct IndexEntry {
  std::string config_hash;
  std::string policy;
  std::string reason;
  bool ok = false;
  std::string row_json;  // the whole line
};

struct IndexContents {
  // One per config_hash, in order of first appearance: the last ok line of it, else its last line.
  std::vector<IndexEntry> entries;
  std::vector<std::string> warnings;

  // The finished run of that configuration; null when there is none or it ended in an error.
  const IndexEntry* find_ok(const std::string& config_hash) const;
};

// The text of an index file; `path` starts every message. A last line that was cut short is a
// warning; any other damaged line is a DataError with its number.
IndexContents parse_index(std::string_view text, const std::string& path);

class RecordStore {
 public:
  // Creates the folder where it is missing, and repairs an index whose last line was cut short.
  explicit RecordStore(std::filesystem::path folder);

  // Writes the record (temporary file, fsync, rename), then appends its index line (fsync).
  void write(const RunRecord& record);

  // Takes back an error record that another configuration's success has made meaningless: a line
  // says so, and readers leave out what was said before it under that hash.
  void withdraw(const std::string& config_hash);

  // The index as it stands. Throws DataError, with the line number, for a damaged line.
  IndexContents read() const;

  const std::filesystem::path& folder() const { return folder_; }

  // What the constructor repaired, for the user's eyes.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void append_line(const std::string& line);

  std::filesystem::path folder_;
  std::vector<std::string> warnings_;
};

}  // namespace kvbench
