// What every task that runs a model must know about how to run it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/kivi_options.hpp"
#include "core/dtype.hpp"
#include "engine/session.hpp"
#include "model/model.hpp"

namespace kvbench {

struct RunSettings {
  std::string model;  // checkpoint directory
  std::int64_t chunk = 512;
  DType dtype = DType::f32;     // of the matrix products
  DType kv_dtype = DType::f32;  // of stored keys and values
  std::optional<KiviOptions> kivi = {};
  bool softmax_off_by_one = false;  // see SessionOptions
  SinkSource sinks = {};            // learned sinks, if the model has them
  std::string backend = "auto";
  std::vector<int> devices = {};  // of the backend; empty: its first
  int threads = 1;
  std::uint64_t seed = 0;

  Model load_model(Backend& model_backend) const {
    return Model::load(model, model_backend, dtype, sinks);
  }

  SessionOptions session_options() const {
    return {.chunk = chunk,
            .kv_dtype = kv_dtype,
            .seed = seed,
            .kivi = kivi,
            .softmax_off_by_one = softmax_off_by_one,
            .learned_sinks = sinks.given()};
  }
};

}  // namespace kvbench
