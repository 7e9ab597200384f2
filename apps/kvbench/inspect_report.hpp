// What `kvbench inspect` shows of a model, as one JSON document and as text made from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace kvbench {

struct InspectRequest {
  std::filesystem::path path;    // a model directory, or one .safetensors file
  bool rope = false;             // add the rotary frequencies
  std::int64_t rope_length = 0;  // tokens of text they are for; 0: the model's context length
  std::string sink_tensor = {};  // name of the tensor with learned sinks, if there is one
  bool values = false;           // add the values of tensors of at most 32 elements
};

// A directory gives "config" (each value resolved, under config.json's own keys),
// "kv_bytes_per_token", and, where it holds weights, "tensors" and "parameters", checked against
// the config. A directory of weights without config.json, and a single file, give "tensors" alone.
// Always there: "path" and "warnings".
nlohmann::ordered_json inspect_model(const InspectRequest& request);

std::string inspect_text(const nlohmann::ordered_json& report);

}  // namespace kvbench
