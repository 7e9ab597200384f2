// Finished runs as they lie on disk, to be compared and reported: the lines of index.jsonl, and the
// whole records beside it where they are there. Reads only; what resuming counts as done is what
// counts here, and one configuration stands once.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvbench {

struct ResultRun {
  std::string task;
  std::string policy;  // as on the command line
  bool ok = false;
  std::string reason;  // why not ok
  std::string config_hash;
  std::string comparison_hash;  // "" where an old index line stands without its record
  std::shared_ptr<const nlohmann::ordered_json> row;     // the index line; never null
  std::shared_ptr<const nlohmann::ordered_json> record;  // the whole record, or null

  // A metric of the row; absent where it is null or missing.
  std::optional<double> metric(std::string_view name) const;
  std::optional<double> error_bar(std::string_view metric) const;
  // Names of the row's metrics in order, error bars left out.
  std::vector<std::string> metric_names() const;
  // A text field of the row, "" where it is null or missing.
  std::string text(std::string_view field) const;
  // The configuration but the policy's options: name, and text or JSON. Without the whole record
  // only plain values, as an index line has no others.
  std::vector<std::pair<std::string, std::string>> settings() const;
};

struct ResultSet {
  std::vector<ResultRun> runs;
  std::vector<std::string> warnings;
};

// Folders with an index.jsonl, or index files. ConfigError for a path that is neither; DataError
// for a damaged index, and for a record whose configuration does not have the hash in its name.
ResultSet read_results(std::span<const std::filesystem::path> paths);
ResultSet read_results(const std::filesystem::path& path);

}  // namespace kvbench
