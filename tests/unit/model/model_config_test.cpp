// config.json of real and odd checkpoints: what each key, absent key and null resolves to.
#include "model/model_config.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "model/family.hpp"
#include "tests/unit/model/config_cases.hpp"

using kvbench::DType;
using kvbench::ModelConfig;
using kvbench::read_model_config;
using kvbench::test::case_config;
using kvbench::test::contains;
using kvbench::test::error_of;
using kvbench::test::resolve;
using kvbench::test::TempDir;
using kvbench::test::tiny_llama;
using kvbench::test::with;
using kvbench::test::without;
using nlohmann::json;

namespace {

std::vector<std::int32_t> as_ids(const json& ids) {
  if (ids.is_null()) return {};
  if (ids.is_array()) return ids.get<std::vector<std::int32_t>>();
  return {ids.get<std::int32_t>()};
}

void check_rope(const kvbench::RopeConfig& rope, const json& expected) {
  CHECK(rope.theta == expected.at("rope_theta").get<double>());
  CHECK(kvbench::rope_type_name(rope.type) == expected.at("rope_type").get<std::string>());
  CHECK(rope.factor == expected.value("factor", 1.0));
  if (expected.contains("original_max_position_embeddings")) {
    CHECK(rope.original_max_positions ==
          expected.at("original_max_position_embeddings").get<std::int64_t>());
  }
}

void check_dtype(const ModelConfig& found, const json& expected) {
  if (expected.is_null()) {
    CHECK_FALSE(found.declared_dtype.has_value());
  } else {
    CHECK(found.declared_dtype == (expected == "torch.float16" ? DType::f16 : DType::bf16));
  }
}

void check_resolved(const ModelConfig& found, const json& expected) {
  CHECK(found.n_heads == expected.at("num_attention_heads").get<std::int64_t>());
  if (expected.contains("num_key_value_heads")) {
    CHECK(found.n_kv_heads == expected.at("num_key_value_heads").get<std::int64_t>());
  }
  if (!expected.value("head_dim", json()).is_null()) {
    CHECK(found.head_dim == expected.at("head_dim").get<std::int64_t>());
  }
  CHECK(found.max_positions == expected.value("max_position_embeddings", std::int64_t{2048}));
  CHECK(found.tie_word_embeddings == expected.at("tie_word_embeddings").get<bool>());
  CHECK(found.stop_ids == as_ids(expected.at("eos_token_id")));
  const json& bos = expected.at("bos_token_id");
  CHECK(found.bos_id == (bos.is_null() ? std::nullopt : std::optional(bos.get<std::int32_t>())));
  check_dtype(found, expected.at("dtype"));
  if (expected.contains("layer_norm_eps")) {
    CHECK(found.norm_eps == expected.at("layer_norm_eps").get<double>());
  }
  if (expected.contains("rope_parameters")) check_rope(found.rope, expected.at("rope_parameters"));
  if (expected.contains("n_sliding")) {
    std::int64_t n_sliding = 0;
    for (const auto& window : found.sliding_windows) n_sliding += window.has_value() ? 1 : 0;
    CHECK(n_sliding == expected.at("n_sliding").get<std::int64_t>());
  } else if (expected.contains("sliding_window")) {
    const json& window = expected.at("sliding_window");
    CHECK(found.window_of(0) ==
          (window.is_null() ? std::nullopt : std::optional(window.get<std::int64_t>())));
  }
}

}  // namespace

TEST_CASE("configs of real checkpoints resolve as in the reference") {
  const json cases = kvbench::test::read_golden("config/cases.json").at("cases");
  REQUIRE(cases.size() > 20);
  for (const auto& item : cases.items()) {
    const std::string& name = item.key();
    const json& row = item.value();
    // Refused there or here; each has a test of its own below.
    if (row.at("resolved").contains("reference_error") || name == "qwen2_kv_absent") continue;
    CAPTURE(name);
    check_resolved(resolve(row.at("config")), row.at("resolved"));
  }
}

TEST_CASE("num_key_value_heads: absent and null, family by family") {
  CHECK(resolve(without(tiny_llama(), "num_key_value_heads")).n_kv_heads == 4);
  CHECK(resolve(with(tiny_llama(), {{"num_key_value_heads", nullptr}})).n_kv_heads == 4);
  CHECK(resolve(case_config("mistral_kv_absent")).n_kv_heads == 8);
  CHECK(contains(error_of(case_config("mistral_kv_null")), "num_key_value_heads"));
  const std::string qwen = error_of(case_config("qwen2_kv_absent"));
  CHECK(contains(qwen, "num_key_value_heads"));
  CHECK(contains(qwen, "28"));
  CHECK(contains(qwen, "multiple of 32"));
  CHECK(resolve(with(case_config("qwen2_kv_absent"), {{"num_key_value_heads", nullptr}}))
            .n_kv_heads == 28);
}

TEST_CASE("num_key_value_heads must divide the query heads") {
  for (const json& bad : {json(0), json(3), json(-1), json(8), json("2"), json(2.0), json(true)}) {
    CAPTURE(bad.dump());
    CHECK(contains(error_of(with(tiny_llama(), {{"num_key_value_heads", bad}})),
                   "num_key_value_heads"));
  }
}

TEST_CASE("head_dim: explicit, null, absent") {
  CHECK(resolve(kvbench::test::tiny_config("llama_headdim8")).head_dim == 8);
  CHECK(resolve(with(tiny_llama(), {{"head_dim", nullptr}})).head_dim == 4);
  CHECK(resolve(case_config("mistral_nemo")).head_dim == 128);
  CHECK(resolve(case_config("mistral_nemo_head_dim_absent")).head_dim == 160);
  const json qwen3 = kvbench::test::tiny_config("qwen3");
  CHECK(resolve(qwen3).head_dim == 8);
  CHECK(resolve(without(qwen3, "head_dim")).head_dim == 128);
  CHECK(contains(error_of(with(qwen3, {{"head_dim", nullptr}})), "head_dim"));
  CHECK(contains(error_of(with(tiny_llama(), {{"head_dim", 5}})), "head_dim"));
  CHECK(contains(error_of(with(tiny_llama(), {{"head_dim", 0}})), "head_dim"));
  CHECK(contains(error_of(with(tiny_llama(), {{"hidden_size", 18}})), "hidden_size"));
}

TEST_CASE("KV bytes follow head_dim and KV heads") {
  const ModelConfig nemo = resolve(case_config("mistral_nemo"));
  CHECK(nemo.kv_bytes_per_token(DType::bf16) == 2 * 40 * 8 * 128 * 2);
  CHECK(nemo.kv_bytes_per_token(DType::f32) == 2 * 40 * 8 * 128 * 4);
  CHECK(nemo.group_size() == 4);
}

TEST_CASE("sliding_window of mistral: a number, null, absent") {
  CHECK(resolve(kvbench::test::tiny_config("mistral_w4")).window_of(1) == 4);
  CHECK_FALSE(resolve(kvbench::test::tiny_config("mistral_wnull")).slides());
  CHECK(resolve(kvbench::test::tiny_config("mistral_wabsent")).window_of(0) == 4096);
  CHECK(contains(error_of(with(tiny_llama(), {{"model_type", "mistral"}, {"sliding_window", 0}})),
                 "sliding_window"));
}

TEST_CASE("a window that llama would not honour is reported, not used") {
  const ModelConfig found = resolve(with(tiny_llama(), {{"sliding_window", 4}}));
  CHECK_FALSE(found.slides());
  REQUIRE(found.warnings.size() == 1);
  CHECK(contains(found.warnings[0], "sliding_window"));
}

TEST_CASE("use_sliding_window and max_window_layers of qwen2: the upper layers slide") {
  const auto windows = [](const std::string& name) {
    return resolve(kvbench::test::tiny_config(name)).sliding_windows;
  };
  using Windows = std::vector<std::optional<std::int64_t>>;
  CHECK(windows("qwen2_flag_false") == Windows{std::nullopt, std::nullopt});
  CHECK(windows("qwen2_flag_true_mwl2") == Windows{std::nullopt, std::nullopt});
  CHECK(windows("qwen2_flag_true_mwl1") == Windows{std::nullopt, 4});
  CHECK(windows("qwen2_flag_true_mwl0") == Windows{4, 4});
  const ModelConfig upper = resolve(case_config("qwen2_window_on_mwl14"));
  CHECK(upper.window_of(13) == std::nullopt);
  CHECK(upper.window_of(14) == 4096);
  CHECK_FALSE(resolve(case_config("qwen2_window_on_no_mwl")).slides());
}

TEST_CASE("layer_types decides in qwen2 and must agree elsewhere") {
  const json types = {"sliding_attention", "full_attention"};
  const json qwen2 =
      with(kvbench::test::tiny_config("qwen2_flag_true_mwl1"), {{"layer_types", types}});
  const ModelConfig found = resolve(qwen2);
  CHECK(found.window_of(0) == 4);
  CHECK(found.window_of(1) == std::nullopt);
  CHECK(contains(error_of(with(qwen2, {{"use_sliding_window", false}})), "layer_types"));
  CHECK(contains(error_of(with(qwen2, {{"layer_types", {"full_attention"}}})), "layer_types"));
  CHECK(contains(error_of(with(qwen2, {{"layer_types", {"full_attention", "chunked_attention"}}})),
                 "chunked_attention"));
  CHECK(contains(error_of(with(tiny_llama(), {{"layer_types", types}})), "layer_types"));
  CHECK(error_of(with(tiny_llama(), {{"layer_types", {"full_attention", "full_attention"}}})) ==
        "no error");
}

TEST_CASE("stop ids: a number, a list, null, empty, absent") {
  using Ids = std::vector<std::int32_t>;
  CHECK(resolve(kvbench::test::tiny_config("llama_eos_list")).stop_ids == Ids{2, 7, 9});
  CHECK(resolve(with(tiny_llama(), {{"eos_token_id", 3}})).stop_ids == Ids{3});
  CHECK(resolve(with(tiny_llama(), {{"eos_token_id", nullptr}})).stop_ids.empty());
  CHECK(resolve(with(tiny_llama(), {{"eos_token_id", json::array()}})).stop_ids.empty());
  CHECK(resolve(without(tiny_llama(), "eos_token_id")).stop_ids == Ids{2});
  CHECK(resolve(with(tiny_llama(), {{"eos_token_id", {9, 2, 9}}})).stop_ids == Ids{9, 2});
  for (const json& bad : {json(-1), json("2"), json(2.5), json({2, nullptr}), json(true)}) {
    CAPTURE(bad.dump());
    CHECK(contains(error_of(with(tiny_llama(), {{"eos_token_id", bad}})), "eos_token_id"));
  }
}

TEST_CASE("bos id: a number, null, absent, family by family") {
  CHECK(resolve(with(tiny_llama(), {{"bos_token_id", 5}})).bos_id == 5);
  CHECK(resolve(with(tiny_llama(), {{"bos_token_id", nullptr}})).bos_id == std::nullopt);
  CHECK(resolve(without(tiny_llama(), "bos_token_id")).bos_id == 1);
  const json qwen3 = kvbench::test::tiny_config("qwen3");
  CHECK(resolve(without(qwen3, "bos_token_id")).bos_id == std::nullopt);
  CHECK(resolve(without(qwen3, "eos_token_id")).stop_ids.empty());
}

TEST_CASE("generation_config.json wins over config.json") {
  using Ids = std::vector<std::int32_t>;
  const TempDir directory;
  kvbench::test::write_config(directory, tiny_llama());
  directory.write("generation_config.json", R"({"eos_token_id": [2, 9]})");
  CHECK(read_model_config(directory.path()).stop_ids == Ids{2, 9});
  directory.write("generation_config.json", R"({"eos_token_id": null})");
  CHECK(read_model_config(directory.path()).stop_ids.empty());
  directory.write("generation_config.json", R"({"do_sample": false})");
  CHECK(read_model_config(directory.path()).stop_ids == Ids{2});
  directory.write("generation_config.json", R"({"eos_token_id": "x"})");
  CHECK_THROWS_WITH_AS(read_model_config(directory.path()),
                       doctest::Contains("generation_config.json"), kvbench::DataError);
}

TEST_CASE("declared dtype: both keys, both spellings") {
  const json base = without(tiny_llama(), "torch_dtype");
  CHECK(resolve(base).declared_dtype == std::nullopt);
  CHECK(resolve(kvbench::test::tiny_config("llama_dtype_new_key")).declared_dtype == DType::f32);
  CHECK(resolve(case_config("llama_torch_dtype_prefixed")).declared_dtype == DType::f16);
  CHECK(resolve(with(base, {{"dtype", "bfloat16"}, {"torch_dtype", "float16"}})).declared_dtype ==
        DType::bf16);
  CHECK(resolve(with(base, {{"dtype", nullptr}, {"torch_dtype", "float16"}})).declared_dtype ==
        DType::f16);
  CHECK(resolve(with(base, {{"torch_dtype", "half"}})).declared_dtype == DType::f16);
  CHECK(resolve(with(base, {{"torch_dtype", "auto"}})).declared_dtype == std::nullopt);
  const std::string error = error_of(with(base, {{"torch_dtype", "float8_e4m3fn"}}));
  CHECK(contains(error, "torch_dtype"));
  CHECK(contains(error, "float8_e4m3fn"));
}

TEST_CASE("unknown families are refused, known ones need no architectures") {
  const std::string error = error_of(with(tiny_llama(), {{"model_type", "llama4"}}));
  CHECK(contains(error, "config.json"));
  CHECK(contains(error, "llama4"));
  CHECK(contains(error, "llama, mistral"));
  CHECK(contains(error_of(without(tiny_llama(), "model_type")), "model_type"));
  const ModelConfig found = resolve(without(tiny_llama(), "architectures"));
  CHECK(found.architecture == "LlamaForCausalLM");
  CHECK(found.warnings.empty());
  CHECK(resolve(with(tiny_llama(), {{"architectures", {"OtherForCausalLM"}}})).warnings.size() ==
        1);
}

TEST_CASE("settings that change the arithmetic are refused by key") {
  const std::vector<std::pair<std::string, json>> refused = {
      {"quantization_config", {{"quant_method", "gptq"}}},
      {"num_local_experts", 8},
      {"partial_rotary_factor", 0.5},
      {"logit_scale", 0.0625},
      {"final_logit_softcapping", 30.0},
      {"rope_interleaved", true},
      {"hidden_act", "relu2"},
  };
  for (const auto& setting : refused) {
    const std::string& key = setting.first;
    CAPTURE(key);
    CHECK(contains(error_of(with(tiny_llama(), {{key, setting.second}})), key));
  }
  const json mistral = kvbench::test::tiny_config("mistral_w4");
  CHECK(contains(error_of(with(mistral, {{"attention_bias", true}})), "attention_bias"));
  const json harmless = {{"quantization_config", nullptr}, {"partial_rotary_factor", 1.0},
                         {"rope_interleaved", false},      {"pretraining_tp", 2},
                         {"attention_dropout", 0.1},       {"use_cache", false}};
  CHECK(error_of(with(tiny_llama(), harmless)) == "no error");
}

TEST_CASE("missing and mistyped sizes are refused by key") {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads"}) {
    CAPTURE(key);
    CHECK(contains(error_of(without(tiny_llama(), key)), key));
    for (const json& bad : {json(nullptr), json(0), json(-4), json(4.0), json("4"), json(1e30),
                            json(INT64_C(1) << 40)}) {
      CAPTURE(bad.dump());
      CHECK(contains(error_of(with(tiny_llama(), {{key, bad}})), key));
    }
  }
}

TEST_CASE("biases and head norms of each family") {
  const ModelConfig llama = resolve(kvbench::test::tiny_config("llama_attnbias"));
  CHECK(llama.qkv_bias);
  CHECK(llama.o_bias);
  CHECK_FALSE(llama.mlp_bias);
  const ModelConfig qwen2 = resolve(kvbench::test::tiny_config("qwen2_flag_false"));
  CHECK(qwen2.qkv_bias);
  CHECK_FALSE(qwen2.o_bias);
  CHECK(qwen2.qk_norm == kvbench::QkNorm::none);
  const ModelConfig qwen3 = resolve(kvbench::test::tiny_config("qwen3"));
  CHECK_FALSE(qwen3.qkv_bias);
  CHECK(qwen3.qk_norm == kvbench::QkNorm::head);
  CHECK(resolve(with(tiny_llama(), {{"hidden_act", "gelu_new"}})).activation ==
        kvbench::Activation::gelu_tanh);
}

TEST_CASE("every family has a row of its own and resolves by name") {
  REQUIRE(kvbench::families().size() >= 4);
  for (const kvbench::FamilySpec& family : kvbench::families()) {
    CHECK(&kvbench::find_family(family.model_type) == &family);
    CHECK_FALSE(family.architectures.empty());
    CHECK_FALSE(family.summary.empty());
  }
}
