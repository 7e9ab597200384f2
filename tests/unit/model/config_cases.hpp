// Configs to resolve in tests: real ones, the tiny model's, and variations of both.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"
#include "model/model_config.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench::test {

inline ModelConfig resolve(const nlohmann::json& config) {
  const TempDir directory;
  write_config(directory, config);
  return read_model_config(directory.path());
}

inline std::string error_of(const nlohmann::json& config) {
  return error_text<DataError>([&] { resolve(config); });
}

inline nlohmann::json with(nlohmann::json config, const nlohmann::json& changes) {
  config.update(changes);
  return config;
}

inline nlohmann::json without(nlohmann::json config, const std::string& key) {
  config.erase(key);
  return config;
}

inline nlohmann::json case_config(const std::string& name) {
  return read_golden("config/cases.json").at("cases").at(name).at("config");
}

inline nlohmann::json tiny_llama() {
  return tiny_config("llama");
}

}  // namespace kvbench::test
