// The report of `kvbench inspect`: resolved values, tensors, sizes, values, and refusals.
#include "apps/kvbench/inspect_report.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"

using kvbench::DType;
using kvbench::inspect_model;
using kvbench::inspect_text;
using kvbench::InspectRequest;
using kvbench::test::contains;
using kvbench::test::SafetensorsBuilder;
using kvbench::test::TempDir;
using kvbench::test::tiny_model;

namespace {

std::string error_of(const InspectRequest& request) {
  return kvbench::test::error_text<kvbench::DataError>([&] { inspect_model(request); });
}

}  // namespace

TEST_CASE("a model directory: every value resolved, tensors counted, KV bytes per token") {
  const auto report = inspect_model({.path = tiny_model("llama")});
  const auto& config = report.at("config");
  CHECK(config.at("model_type") == "llama");
  CHECK(config.at("num_key_value_heads") == 2);
  CHECK(config.at("head_dim") == 4);
  CHECK(config.at("rope_parameters").at("rope_theta") == 10000.0);
  CHECK(config.at("sliding_window").is_null());
  CHECK(config.at("sliding_layers").empty());
  CHECK(config.at("eos_token_id") == nlohmann::ordered_json{2});
  CHECK(report.at("tensor_count") == 21);
  // 2 * 32 * 16 embeddings; per layer 2 * 16 * 16 + 2 * 8 * 16 + 3 * 24 * 16 + 2 * 16; norm 16.
  CHECK(report.at("parameters") == 1024 + 2 * 1952 + 16);
  CHECK(report.at("tensor_bytes") == 4 * (1024 + 2 * 1952 + 16));
  CHECK(report.at("kv_bytes_per_token").at("bf16") == 2 * 2 * 2 * 4 * 2);
  CHECK(report.at("kv_bytes_per_token").at("f32") == 2 * 2 * 2 * 4 * 4);
  CHECK(report.at("warnings").empty());
  CHECK_FALSE(report.contains("rope"));
}

TEST_CASE("the model's own window and the layers that slide are shown") {
  const auto report = inspect_model({.path = tiny_model("qwen2_flag_true_mwl1")});
  CHECK(report.at("config").at("sliding_window") == 4);
  CHECK(report.at("config").at("sliding_layers") == nlohmann::ordered_json{1});
}

TEST_CASE("parameters of tied models count the embedding once") {
  for (const char* name : {"tied_true_missing", "tied_true_present_equal"}) {
    const auto report = inspect_model({.path = tiny_model(name)});
    CHECK(report.at("parameters") == 512 + 2 * 1952 + 16);
    CHECK(report.at("lm_head_is_embedding") == true);
  }
  const auto other = inspect_model({.path = tiny_model("tied_true_present_differs")});
  CHECK(other.at("parameters") == 1024 + 2 * 1952 + 16);
  CHECK(other.at("warnings").size() == 1);
  CHECK(contains(inspect_text(other), "warning: "));
}

TEST_CASE("a directory without weights shows the config and says so") {
  const TempDir directory;
  kvbench::test::write_config(
      directory, kvbench::test::read_golden("config/cases.json")["cases"]["llama31"]["config"]);
  const auto report = inspect_model({.path = directory.path(), .rope = true});
  CHECK(report.at("rope").at("inv_freq").size() == 64);
  CHECK(report.at("rope").at("length") == 131072);
  CHECK(report.at("warnings").size() == 1);
  CHECK_FALSE(report.contains("tensors"));
  CHECK(contains(inspect_text(report), "inv_freq[35] = 9.55621"));
}

TEST_CASE("the rotary frequencies follow the length that is asked for") {
  const auto at = [](std::int64_t length) {
    const auto report = inspect_model(
        {.path = tiny_model("llama_dynamic_long"), .rope = true, .rope_length = length});
    return report.at("rope").at("inv_freq").at(1).get<double>();
  };
  CHECK(at(0) == doctest::Approx(0.01));
  CHECK(at(13) == doctest::Approx(1.0 / 350.0));
}

TEST_CASE("a safetensors file: tensors alone, small values on request") {
  const TempDir directory;
  const auto path = directory.write(
      "x.safetensors",
      SafetensorsBuilder()
          .add("a", DType::bf16, {4},
               kvbench::test::bytes_of<std::uint16_t>({0x3f80, 0xc000, 0x7f80, 0x7fc0}))
          .add_f32("b", {33}, std::vector<float>(33))
          .bytes());
  const auto report = inspect_model({.path = path, .values = true});
  CHECK_FALSE(report.contains("config"));
  CHECK(report.at("tensors").at(0).at("values") ==
        nlohmann::ordered_json({1.0, -2.0, "inf", "nan"}));
  CHECK_FALSE(report.at("tensors").at(1).contains("values"));
  CHECK(contains(inspect_text(report), " 1 -2 inf nan\n"));
  CHECK_FALSE(inspect_model({.path = path}).at("tensors").at(0).contains("values"));
}

TEST_CASE("values of a dtype without conversion are refused, never shown raw") {
  const TempDir directory;
  const auto path = directory.write(
      "x.safetensors",
      SafetensorsBuilder().add("w", DType::f8_e4m3, {4}, "\x38\xb8\x40\x7e").bytes());
  CHECK(inspect_model({.path = path}).at("tensors").at(0).at("dtype") == "F8_E4M3");
  CHECK(contains(error_of({.path = path, .values = true}), "dtype F8_E4M3 of w is not supported"));
}

TEST_CASE("what cannot be inspected is refused by name") {
  CHECK(contains(error_of({.path = "/nowhere/at/all"}), "/nowhere/at/all"));
  const TempDir empty;
  CHECK(contains(error_of({.path = empty.path()}), "config.json"));
  CHECK(contains(error_of({.path = tiny_model("missing_final_norm")}), "model.norm.weight"));
  CHECK(contains(error_of({.path = tiny_model("llama") / "model.safetensors", .rope = true}),
                 "config.json"));
}

TEST_CASE("a checkpoint with learned sinks names their tensor") {
  const TempDir directory;
  auto tensors = kvbench::test::tiny_tensors("llama");
  tensors.push_back({"sinks", DType::f32, {2, 16}, std::string(128, '\0')});
  kvbench::test::write_tensors(directory, tensors);
  kvbench::test::write_config(directory, kvbench::test::tiny_config("llama"));
  CHECK(contains(error_of({.path = directory.path()}), "sinks"));
  const auto report = inspect_model({.path = directory.path(), .sink_tensor = "sinks"});
  CHECK(report.at("learned_sinks") == 2);
  CHECK(contains(inspect_text(report), "2 learned sinks"));
}
