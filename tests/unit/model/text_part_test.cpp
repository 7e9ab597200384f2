// Gemma 1, and the text parts of checkpoints that also see images: keys, tensors, refusals.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "model/family.hpp"
#include "model/model_tensors.hpp"
#include "tests/unit/model/config_cases.hpp"

using kvbench::Activation;
using kvbench::Checkpoint;
using kvbench::DType;
using kvbench::ModelConfig;
using kvbench::ModelTensors;
using kvbench::test::contains;
using kvbench::test::error_of;
using kvbench::test::resolve;
using kvbench::test::with;
using kvbench::test::without;
using nlohmann::json;

namespace {

json family_config(const std::string& name) {
  return kvbench::test::read_golden("families/" + name + "/config.json");
}

// The config with changes inside text_config.
json with_text(json config, const json& changes) {
  config["text_config"].update(changes);
  return config;
}

// What the tensors of the family's checkpoint, under names that `rename` gives, are refused for.
template <class Rename>
std::string tensors_error(const std::string& family, Rename rename) {
  const auto folder = kvbench::test::golden_directory() / "families" / family;
  const Checkpoint checkpoint = Checkpoint::open(folder);
  kvbench::test::SafetensorsBuilder file;
  for (const std::string& name : checkpoint.names()) {
    const kvbench::TensorView& view = checkpoint.require(name);
    file.add(rename(name), view.dtype, view.shape,
             std::string(reinterpret_cast<const char*>(view.data), view.byte_count()));
  }
  const kvbench::test::TempDir directory;
  kvbench::test::write_config(directory, family_config(family));
  directory.write("model.safetensors", file.bytes());
  return kvbench::test::error_text<kvbench::DataError>([&] {
    const ModelConfig config = kvbench::read_model_config(directory.path());
    const Checkpoint changed = Checkpoint::open(directory.path());
    collect_tensors(config, kvbench::find_family(config.model_type), changed);
  });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("Gemma 1: defaults, and the activation that its published files misname") {
  const json config = family_config("gemma");
  const ModelConfig gemma = resolve(config);
  CHECK(gemma.embedding_scale == 4.0);
  CHECK(gemma.attention_scale == doctest::Approx(1.0 / std::sqrt(8.0)));
  CHECK(gemma.norm_weights_less_one);
  CHECK_FALSE(gemma.output_norms);
  CHECK(gemma.tie_word_embeddings);
  CHECK(gemma.activation == Activation::gelu_tanh);
  CHECK(gemma.warnings.empty());
  CHECK(resolve(without(config, "head_dim")).head_dim == 256);
  const ModelConfig misnamed = resolve(with(config, {{"hidden_act", "gelu"}}));
  CHECK(misnamed.activation == Activation::gelu_tanh);
  REQUIRE(misnamed.warnings.size() == 1);
  CHECK(contains(misnamed.warnings[0], "hidden_act is gelu; "));
  CHECK(contains(error_of(with(config, {{"hidden_act", "silu"}})), "key hidden_act: \"silu\""));
  CHECK(resolve(with(config, {{"hidden_activation", "gelu"}})).activation == Activation::gelu);
  for (const json& change :
       {json{{"attn_logit_softcapping", 50.0}}, json{{"query_pre_attn_scalar", 256}},
        json{{"mlp_bias", true}}, json{{"layer_types", {"sliding_attention", "full_attention"}}}}) {
    CHECK(contains(error_of(with(config, change)), "key " + change.begin().key()));
  }
}

TEST_CASE("text parts: what the text model alone would be") {
  for (const std::string name : {"gemma3", "mistral3"}) {
    CAPTURE(name);
    const json config = family_config(name);
    const ModelConfig part = resolve(config);
    json text = config["text_config"];
    const ModelConfig alone = resolve(text);
    CHECK(part.model_type == name);
    CHECK(part.sliding_windows == alone.sliding_windows);
    CHECK(part.attention_scale == alone.attention_scale);
    CHECK(part.embedding_scale == alone.embedding_scale);
    CHECK(part.rope.theta == alone.rope.theta);
    CHECK(part.stop_ids == alone.stop_ids);
    CHECK(part.warnings.empty());
  }
}

// The published 4B file leaves the vocabulary and the heads to the defaults.
TEST_CASE("text parts: Gemma 3 with the keys of its published files") {
  const ModelConfig config = resolve(json::parse(
      R"({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
          "eos_token_id": [1, 106], "torch_dtype": "bfloat16", "mm_tokens_per_image": 256,
          "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
            "model_type": "gemma3_text", "num_hidden_layers": 34,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
          "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}})"));
  CHECK(config.vocab_size == 262208);
  CHECK(config.n_heads == 8);
  CHECK(config.n_kv_heads == 4);
  CHECK(config.head_dim == 256);
  CHECK(config.stop_ids == std::vector<std::int32_t>{1, 106});
  CHECK(config.declared_dtype == DType::bf16);
  CHECK(config.window_of(0) == 1024);
  CHECK_FALSE(config.window_of(5));
  CHECK(config.tie_word_embeddings);
}

TEST_CASE("text parts: keys are named with their place") {
  for (const std::string name : {"gemma3", "mistral3"}) {
    CAPTURE(name);
    const json config = family_config(name);
    CHECK(contains(error_of(without(config, "text_config")), "key text_config: missing"));
    CHECK(contains(error_of(with(config, {{"text_config", 3}})), "key text_config"));
    CHECK(contains(error_of(with_text(config, {{"model_type", "llama"}})),
                   "key text_config.model_type: \"llama\""));
    CHECK(contains(error_of(with_text(config, {{"hidden_size", "big"}})),
                   "key text_config.hidden_size"));
    CHECK(contains(error_of(with_text(config, {{"residual_multiplier", 0.2}})),
                   "key text_config.residual_multiplier"));
    CHECK(contains(error_of(with(config, {{"quantization_config", {{"quant_method", "fp8"}}}})),
                   "key quantization_config"));
  }
}

TEST_CASE("text parts: tensors under older and newer names, those of the images left alone") {
  const auto same = [](const std::string& name) { return name; };
  CHECK(tensors_error("gemma3", same) == "no error");
  CHECK(tensors_error("mistral3", same) == "no error");
  const auto older = [](const std::string& name) {
    return replaced(replaced(name, "model.language_model.", "language_model.model."),
                    "model.vision_tower.", "vision_tower.");
  };
  CHECK(tensors_error("gemma3", older) == "no error");
  const auto newer = [](const std::string& name) {
    return replaced(replaced(name, "language_model.model.", "model.language_model."),
                    "language_model.lm_head.", "lm_head.");
  };
  CHECK(tensors_error("mistral3", newer) == "no error");
  const auto other = [](const std::string& name) {
    return replaced(name, "vision_tower.", "audio_tower.");
  };
  CHECK(contains(tensors_error("gemma3", other), "model.audio_tower."));
}
