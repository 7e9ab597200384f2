// The "manifest" format: a .json that names the files of a corpus, their sizes and SHA-256, while
// the files themselves lie in the cache folder. It is how a data set that cannot be committed is
// pinned: what is read is what the manifest says, or an error.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "dataset/corpus.hpp"

namespace kvbench {

bool is_manifest(const std::filesystem::path& path);
// Throws DataError for a file that is missing or differs from the manifest.
Corpus open_manifest_corpus(const std::filesystem::path& path, const CorpusOptions& options);

// $KVBENCH_CACHE, else ~/.cache/kvbench.
std::filesystem::path cache_folder();

// Where manifests lie: $KVBENCH_DATASETS, else share/kvbench/datasets beside the program's bin
// folder (installed), else the source tree's datasets folder.
std::filesystem::path manifest_folder();
// The manifest of that bare name; absent when there is none.
std::optional<std::filesystem::path> find_manifest(const std::string& name);
// For messages and lists: "janeausten, pg19-test", or "none".
std::string manifest_names();

}  // namespace kvbench
