// The settings that every task which runs a model has, as they are given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/setting_set.hpp"
#include "task/run_settings.hpp"

namespace kvbench {

struct RunOptions {
  std::string model;
  std::string dtype = "f32";
  std::string kv = "same";
  std::string backend = "auto";
  std::int64_t device = 0;
  std::vector<std::int64_t> devices;  // of several, in place of `device`
  std::int64_t threads = 0;           // 0: as many as this process may use
  std::int64_t chunk = 512;
  std::uint64_t seed = 0;
  bool softmax_off_by_one = false;
  std::string sink_tensor;
  std::string sink_file;

  // model, dtype, kv, backend, device, devices, threads, chunk, seed, softmax_off_by_one,
  // sink_tensor, sink_file.
  void declare(SettingSet& settings);
  RunSettings resolve() const;
};

}  // namespace kvbench
