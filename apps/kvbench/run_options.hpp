// Options that every command which runs a model has, and their conversion.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "task/run_settings.hpp"

namespace kvbench {

struct RunOptions {
  std::string model;
  std::string dtype = "f32";
  std::string kv = "same";
  std::string backend = "auto";
  std::int64_t threads = 0;  // 0: as many as this process may use
  std::int64_t chunk = 512;
  std::uint64_t seed = 0;
  bool softmax_off_by_one = false;
  std::string sink_tensor;
  std::string sink_file;

  RunSettings settings() const;
};

// --model, --dtype, --kv, --backend, --threads, --chunk, --seed, --softmax-off-by-one,
// --sink-tensor, --sink-file.
void add_run_options(CLI::App& command, RunOptions& options);

std::vector<std::int32_t> to_ids(const std::vector<std::int64_t>& ids);
// Ids from a file: integers separated by commas, blanks or line ends. DataError names the place.
std::vector<std::int32_t> read_id_file(const std::string& path);

}  // namespace kvbench
