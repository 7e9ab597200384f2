// Finds the weight files of a model directory and checks that index and shards agree.
#include "io/checkpoint.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "io/json_file.hpp"
#include "io/sha256.hpp"

namespace kvbench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

bool is_file(const fs::path& path) {
  std::error_code ignored;  // an unreadable directory counts as having no such file
  return fs::is_regular_file(path, ignored);
}

// tensor name -> shard file name, from an index file.
std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  const json document = read_json_file(index);
  const auto found = document.is_object() ? document.find("weight_map") : document.end();
  if (found == document.end() || !found->is_object()) {
    data_error("{}: key weight_map: expected an object of tensor names and shard names",
               index.string());
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : found->items()) {
    if (!shard.is_string()) {
      data_error("{}: shard of tensor {} is not a string", index.string(), printable(tensor));
    }
    shard_of.emplace(tensor, shard.get<std::string>());
  }
  return shard_of;
}

// A shard may be a symbolic link (download caches are made of them), but its name must stay
// inside the directory: relative, no "..", and no way out through a linked folder.
void check_shard_name(const std::string& shard, const fs::path& directory, const fs::path& index) {
  const fs::path relative(shard);
  const bool has_dots = std::find(relative.begin(), relative.end(), "..") != relative.end();
  bool inside = !shard.empty() && shard.find('\0') == std::string::npos && !has_dots &&
                relative.is_relative() && relative.has_filename();
  if (inside && relative.has_parent_path()) {
    const fs::path root = fs::canonical(directory);
    const fs::path parent = fs::weakly_canonical(root / relative.parent_path());
    const auto differ = std::mismatch(root.begin(), root.end(), parent.begin(), parent.end());
    inside = differ.first == root.end();
  }
  if (!inside) {
    data_error("{}: shard path leaves the model directory: \"{}\"", index.string(),
               printable(shard));
  }
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored)) {
    data_error("{}: no such model directory", directory.string());
  }
  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  const bool has_single = is_file(directory / kSingleFile);
  const bool has_index = is_file(directory / kIndexFile);
  if (!has_single && !has_index) {
    data_error("{}: no weights here: looked for {} and {}", directory.string(), kSingleFile,
               kIndexFile);
  }
  if (has_single && has_index) {
    checkpoint.warnings_.push_back(fmt::format("{}: has both {} and {}; the first is used",
                                               directory.string(), kSingleFile, kIndexFile));
  }
  if (has_single) {
    checkpoint.open_single(directory / kSingleFile);
  } else {
    checkpoint.open_sharded(directory / kIndexFile);
  }
  return checkpoint;
}

void Checkpoint::open_single(const fs::path& file) {
  const auto [shard, added] = shards_.emplace(kSingleFile, SafetensorsFile::open(file));
  for (const NamedTensor& tensor : shard->second.tensors()) {
    tensors_.emplace(tensor.name, &tensor.view);
  }
  const auto& found = shard->second.warnings();
  warnings_.insert(warnings_.end(), found.begin(), found.end());
}

void Checkpoint::open_sharded(const fs::path& index) {
  const std::map<std::string, std::string> shard_of = read_weight_map(index);
  // All names are checked, and all files looked for, before the first one is mapped.
  for (const auto& [tensor, shard] : shard_of) check_shard_name(shard, directory_, index);
  for (const auto& [tensor, shard] : shard_of) {
    if (is_file(directory_ / shard)) continue;
    data_error("{}: shard {} is absent; tensor {} should be in it", index.string(),
               printable(shard), printable(tensor));
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (shards_.contains(shard)) continue;
    shards_.emplace(shard, SafetensorsFile::open(directory_ / shard));
  }
  for (const auto& [tensor, shard] : shard_of) {
    const TensorView* view = shards_.at(shard).find(tensor);
    if (view == nullptr) {
      data_error("{}: `{}` not in {}", index.string(), printable(tensor), printable(shard));
    }
    tensors_.emplace(tensor, view);
  }
  for (const auto& [shard, file] : shards_) {
    warnings_.insert(warnings_.end(), file.warnings().begin(), file.warnings().end());
    add_unlisted_tensors(shard, file, shard_of);
  }
}

// The index decides between two shards with one name. A tensor it does not list at all is kept,
// so that the loader can refuse weights which the model would not use.
void Checkpoint::add_unlisted_tensors(const std::string& shard, const SafetensorsFile& file,
                                      const std::map<std::string, std::string>& shard_of) {
  for (const NamedTensor& tensor : file.tensors()) {
    const auto listed = shard_of.find(tensor.name);
    if (listed != shard_of.end() && listed->second == shard) continue;
    const std::string found = fmt::format("{}: tensor {} of {}", directory_.string(),
                                          printable(tensor.name), printable(shard));
    if (listed != shard_of.end()) {
      warnings_.push_back(fmt::format("{} is ignored: the index takes it from {}", found,
                                      printable(listed->second)));
    } else if (tensors_.emplace(tensor.name, &tensor.view).second) {
      warnings_.push_back(found + " is not in the index; it is kept");
    } else {
      data_error("{} is in another shard too, and not in the index", found);
    }
  }
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

const TensorView& Checkpoint::require(std::string_view name) const {
  const TensorView* view = find(name);
  if (view == nullptr) data_error("{}: no tensor {}", directory_.string(), printable(name));
  return *view;
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, view] : tensors_) names.push_back(name);
  return names;
}

void Checkpoint::release(const TensorView& tensor) const {
  for (const auto& [name, shard] : shards_) {
    const std::span<const std::byte> bytes = shard.file().bytes();
    if (tensor.data < bytes.data() || tensor.data >= bytes.data() + bytes.size()) continue;
    shard.file().release(tensor.data, tensor.byte_count());
    return;
  }
}

std::string Checkpoint::content_hash() const {
  constexpr std::size_t kChunkBytes = std::size_t{16} << 20;
  Sha256 hash;
  for (const auto& [name, view] : tensors_) {
    // The lengths in front keep two different lists of tensors from feeding the same bytes.
    hash.update(fmt::format("{} {} {} {}\n", name.size(), name, dtype_name(view->dtype),
                            to_string(view->shape)));
    const std::span<const std::byte> bytes(view->data, view->byte_count());
    for (std::size_t at = 0; at < bytes.size(); at += kChunkBytes) {
      hash.update(bytes.subspan(at, std::min(kChunkBytes, bytes.size() - at)));
    }
    release(*view);
  }
  return hash.hex();
}

}  // namespace kvbench
