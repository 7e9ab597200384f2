// The weights of a model directory: model.safetensors, or the shards that
// model.safetensors.index.json names. The index decides which shard a tensor comes from.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"
#include "io/safetensors.hpp"

namespace kvbench {

// Owns the mapped shards; all views are valid as long as it lives (moving it keeps them valid).
class Checkpoint {
 public:
  // Maps and checks every shard. DataError names the file and the tensor at fault.
  static Checkpoint open(const std::filesystem::path& directory);

  // nullptr when the checkpoint has no such tensor.
  const TensorView* find(std::string_view name) const;
  // The tensor, or a DataError that names it.
  const TensorView& require(std::string_view name) const;
  // All tensor names, sorted.
  std::vector<std::string> names() const;
  const std::filesystem::path& directory() const { return directory_; }

  // Gives the tensor's pages back to the system, once the caller has made its own copy.
  void release(const TensorView& tensor) const;

  // What is odd about the files but harmless, one line each.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // SHA-256 over names, dtypes, shapes and all data bytes, in order of name: equal weights have
  // equal hashes, whatever the sharding, the metadata or the place on disk.
  // Reads the whole checkpoint each time; callers that need it often keep it.
  std::string content_hash() const;

 private:
  void open_single(const std::filesystem::path& file);
  void open_sharded(const std::filesystem::path& index);
  void add_unlisted_tensors(const std::string& shard, const SafetensorsFile& file,
                            const std::map<std::string, std::string>& shard_of);

  std::filesystem::path directory_;
  std::map<std::string, SafetensorsFile> shards_;  // by file name
  std::map<std::string, const TensorView*, std::less<>> tensors_;
  std::vector<std::string> warnings_;
};

}  // namespace kvbench
