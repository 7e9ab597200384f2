// Definitions of dataset/manifest.hpp.
#include "dataset/manifest.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "core/error.hpp"
#include "dataset/text_files.hpp"
#include "io/json_reader.hpp"
#include "io/sha256.hpp"

namespace kvbench {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> environment_path(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return fs::path(value);
}

// A path of a manifest, which must stay inside the folder that it is relative to.
fs::path inside(const JsonReader& reader, const std::string& key) {
  fs::path path(reader.require_string(key));
  const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
  if (path.empty() || path.is_absolute() || climbs) {
    reader.fail(key, fmt::format("\"{}\" is not a path inside the cache folder", path.string()));
  }
  return path;
}

std::string advice(const JsonReader& manifest) {
  return manifest.optional_string("how_to_get")
      .value_or(
          "datasets/README.md says how to make it; KVBENCH_CACHE names the folder that it lies in");
}

Document read_pinned(const fs::path& folder, const JsonReader& file, const std::string& help) {
  const fs::path path = folder / inside(file, "name");
  const std::string sha256 = file.require_string("sha256");
  const auto bytes = file.optional_int("bytes", 0, std::numeric_limits<std::int64_t>::max());
  std::error_code failure;
  if (!fs::is_regular_file(path, failure)) {
    data_error("{}: no such file, but {} names it; {}", path.string(), file.where(), help);
  }
  Document document{path.filename().string(), read_bytes(path)};
  const auto found_bytes = static_cast<std::int64_t>(document.text.size());
  if (bytes && *bytes != found_bytes) {
    data_error("{}: {} bytes, but {} says {}; {}", path.string(), found_bytes, file.where(), *bytes,
               help);
  }
  const std::string found = sha256_hex(document.text);
  if (found != sha256) {
    data_error("{}: sha256 is {}, but {} says {}; {}", path.string(), found, file.where(), sha256,
               help);
  }
  return document;
}

}  // namespace

bool is_manifest(const fs::path& path) {
  return fs::is_regular_file(path) && path.extension() == ".json";
}

Corpus open_manifest_corpus(const fs::path& path, const CorpusOptions& options) {
  const std::string where = path.string();
  const nlohmann::json content = read_json_file(path, {.allow_bom = true});
  const JsonReader manifest(content, where, JsonErrors::data);
  const std::string format = manifest.require_string("format");
  if (format != "text") {
    manifest.fail("format", fmt::format("\"{}\" is not \"text\", the format of corpora", format));
  }
  Corpus corpus;
  corpus.name = manifest.require_string("name");
  corpus.split = manifest.optional_string("split").value_or("");
  corpus.licence = manifest.optional_string("licence").value_or("");
  const fs::path folder = cache_folder() / inside(manifest, "path");
  const nlohmann::json* files = manifest.find("files");
  if (files == nullptr || !files->is_array()) manifest.fail("files", "expected an array");
  for (const nlohmann::json& file : *files) {
    if (enough_documents(corpus.documents, options)) break;
    const JsonReader reader(file, where, JsonErrors::data);
    corpus.documents.push_back(read_pinned(folder, reader, advice(manifest)));
  }
  return corpus;
}

fs::path cache_folder() {
  if (const auto cache = environment_path("KVBENCH_CACHE")) return *cache;
  if (const auto home = environment_path("HOME")) return *home / ".cache" / "kvbench";
  config_error("no cache folder: set KVBENCH_CACHE (HOME is not set either)");
}

fs::path manifest_folder() {
  if (const auto folder = environment_path("KVBENCH_DATASETS")) return *folder;
  std::error_code failure;
  const fs::path program = fs::read_symlink("/proc/self/exe", failure);
  fs::path installed = program.parent_path().parent_path() / "share" / "kvbench" / "datasets";
  if (!failure && fs::is_directory(installed, failure)) return installed;
  return fs::path(KVBENCH_DATASETS_FOLDER);
}

std::optional<fs::path> find_manifest(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) return std::nullopt;
  const fs::path path = manifest_folder() / (name + ".json");
  std::error_code failure;
  if (!fs::is_regular_file(path, failure)) return std::nullopt;
  return path;
}

std::string manifest_names() {
  std::vector<std::string> names;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(manifest_folder(), failure)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined.empty() ? "none" : joined;
}

}  // namespace kvbench
