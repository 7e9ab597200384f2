// Tensors of tiny checkpoints: found, checked, tied or not; and those that must be refused.
#include "model/model_tensors.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"
#include "io/checkpoint.hpp"
#include "model/family.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"

using kvbench::Checkpoint;
using kvbench::DType;
using kvbench::ModelTensors;
using kvbench::Shape;
using kvbench::test::contains;
using kvbench::test::OwnedTensor;
using kvbench::test::tiny_model;
using kvbench::test::tiny_tensors;
using nlohmann::json;

namespace {

ModelTensors collect(const std::filesystem::path& directory, const Checkpoint& checkpoint) {
  const kvbench::ModelConfig config = kvbench::read_model_config(directory);
  return collect_tensors(config, kvbench::find_family(config.model_type), checkpoint);
}

std::string error_of(const std::filesystem::path& directory) {
  return kvbench::test::error_text<kvbench::DataError>(
      [&] { collect(directory, Checkpoint::open(directory)); });
}

std::string error_with(const json& config, const std::vector<OwnedTensor>& tensors) {
  const kvbench::test::TempDir directory;
  kvbench::test::write_config(directory, config);
  kvbench::test::write_tensors(directory, tensors);
  return error_of(directory.path());
}

OwnedTensor zeros(const std::string& name, DType dtype, const Shape& shape) {
  std::size_t n_bytes = kvbench::dtype_size(dtype);
  for (const std::int64_t size : shape) n_bytes *= static_cast<std::size_t>(size);
  return {name, dtype, shape, std::string(n_bytes, '\0')};
}

OwnedTensor& named(std::vector<OwnedTensor>& tensors, const std::string& name) {
  return *std::ranges::find(tensors, name, &OwnedTensor::name);
}

}  // namespace

TEST_CASE("every tiny checkpoint is taken or refused as expected") {
  const json variants = kvbench::test::read_golden("tiny/expected.json").at("variants");
  REQUIRE(variants.size() > 30);
  for (const auto& item : variants.items()) {
    const std::string& name = item.key();
    const json& row = item.value();
    CAPTURE(name);
    const std::string error = error_of(tiny_model(name));
    if (row.contains("error_names")) {
      CHECK(contains(error, row.at("error_names").get<std::string>()));
    } else {
      CHECK(error == "no error");
    }
  }
}

TEST_CASE("tensors land in their places with their shapes") {
  const Checkpoint checkpoint = Checkpoint::open(tiny_model("llama"));
  const ModelTensors tensors = collect(tiny_model("llama"), checkpoint);
  CHECK(tensors.embedding.shape == Shape{32, 16});
  CHECK(tensors.lm_head.data == checkpoint.require("lm_head.weight").data);
  CHECK_FALSE(tensors.lm_head_is_embedding);
  CHECK(tensors.final_norm.weight.value().data == checkpoint.require("model.norm.weight").data);
  REQUIRE(tensors.layers.size() == 2);
  const kvbench::LayerTensors& layer = tensors.layers[1];
  const auto data = [&](const std::string& name) {
    return checkpoint.require("model.layers.1." + name + ".weight").data;
  };
  CHECK(layer.input_norm.weight.value().data == data("input_layernorm"));
  CHECK(layer.mlp_norm.weight.value().data == data("post_attention_layernorm"));
  REQUIRE(layer.qkv.blocks.size() == 3);
  CHECK(layer.qkv.blocks[0].data == data("self_attn.q_proj"));
  CHECK(layer.qkv.blocks[1].data == data("self_attn.k_proj"));
  CHECK(layer.qkv.blocks[2].data == data("self_attn.v_proj"));
  CHECK(layer.o.blocks.at(0).data == data("self_attn.o_proj"));
  REQUIRE(layer.gate_up.blocks.size() == 2);
  CHECK(layer.gate_up.blocks[0].data == data("mlp.gate_proj"));
  CHECK(layer.gate_up.blocks[1].data == data("mlp.up_proj"));
  CHECK(layer.down.blocks.at(0).data == data("mlp.down_proj"));
  CHECK(layer.qkv.biases.empty());
  CHECK_FALSE(layer.attention_output_norm.weight.has_value());
  CHECK_FALSE(layer.router.present());
  CHECK_FALSE(layer.q_norm.has_value());
}

TEST_CASE("biases and head norms are there exactly when the config has them") {
  const Checkpoint biased = Checkpoint::open(tiny_model("llama_attnbias"));
  const kvbench::LayerTensors llama = collect(tiny_model("llama_attnbias"), biased).layers[0];
  CHECK(llama.qkv.biases.at(1).data == biased.require("model.layers.0.self_attn.k_proj.bias").data);
  CHECK(llama.o.biases.at(0).shape == Shape{16});
  const Checkpoint qwen2_file = Checkpoint::open(tiny_model("qwen2_flag_false"));
  const kvbench::LayerTensors qwen2 = collect(tiny_model("qwen2_flag_false"), qwen2_file).layers[0];
  CHECK(qwen2.qkv.biases.size() == 3);
  CHECK(qwen2.o.biases.empty());
  const Checkpoint qwen3_file = Checkpoint::open(tiny_model("qwen3"));
  const kvbench::LayerTensors qwen3 = collect(tiny_model("qwen3"), qwen3_file).layers[0];
  CHECK(qwen3.q_norm.value().shape == Shape{8});
  CHECK(qwen3.qkv.blocks.at(0).shape == Shape{32, 16});
  CHECK(qwen3.o.blocks.at(0).shape == Shape{16, 32});
}

TEST_CASE("fused rows are taken apart into q, k and v") {
  const auto layer_of = [](const char* name, const Checkpoint& file) {
    return collect(tiny_model(name), file).layers[1];
  };
  constexpr std::int64_t kRowBytes = 24 * 4;
  // Two groups of three query heads of 4 dims: q q q k v, q q q k v.
  const Checkpoint falcon_file = Checkpoint::open(tiny_model("falcon_newdec"));
  const auto falcon = layer_of("falcon_newdec", falcon_file);
  const std::byte* fused =
      falcon_file.require("transformer.h.1.self_attention.query_key_value.weight").data;
  REQUIRE(falcon.qkv.blocks.size() == 6);
  const std::vector<std::int64_t> first_rows{0, 20, 12, 32, 16, 36};
  for (std::size_t i = 0; i < first_rows.size(); ++i) {
    CHECK(falcon.qkv.blocks[i].data == fused + first_rows[i] * kRowBytes);
    CHECK(falcon.qkv.blocks[i].shape == Shape{i < 2 ? 12 : 4, 24});
  }
  CHECK(falcon.mlp_norm.weight.value().data ==
        falcon_file.require("transformer.h.1.ln_mlp.weight").data);
  // One KV head: nothing to reorder. One norm for attention and MLP.
  const Checkpoint mqa_file = Checkpoint::open(tiny_model("falcon_mqa"));
  const auto mqa = layer_of("falcon_mqa", mqa_file);
  CHECK(mqa.qkv.blocks[0].shape == Shape{24, 24});
  CHECK(mqa.qkv.blocks[2].data == mqa.qkv.blocks[0].data + 28 * kRowBytes);
  CHECK_FALSE(mqa.mlp_norm.weight.has_value());
  // Per head of 8 dims q, k, v; the biases go with the rows.
  const Checkpoint neox_file = Checkpoint::open(tiny_model("neox_parallel"));
  const auto neox = layer_of("neox_parallel", neox_file);
  const std::byte* biases =
      neox_file.require("gpt_neox.layers.1.attention.query_key_value.bias").data;
  REQUIRE(neox.qkv.biases.size() == 12);
  CHECK(neox.qkv.biases[1].data == biases + 24 * 4);
  CHECK(neox.qkv.biases[4].data == biases + 8 * 4);
  CHECK(neox.qkv.biases[11].data == biases + (3 * 24 + 16) * 4);
}

TEST_CASE("experts: one tensor for all, or tensors for each") {
  const Checkpoint fused_file = Checkpoint::open(tiny_model("mixtral"));
  const auto fused = collect(tiny_model("mixtral"), fused_file).layers[0];
  REQUIRE(fused.experts.size() == 4);
  CHECK(fused.router.blocks.at(0).shape == Shape{4, 16});
  CHECK(fused.experts[2].gate_up.blocks.at(0).shape == Shape{48, 16});
  CHECK(fused.experts[2].gate_up.blocks.at(0).data ==
        fused_file.require("model.layers.0.mlp.experts.gate_up_proj").data + 2 * 48 * 16 * 4);
  CHECK(fused.experts[3].down.blocks.at(0).shape == Shape{16, 24});
  CHECK_FALSE(fused.gate_up.present());

  std::vector<OwnedTensor> tensors = tiny_tensors("mixtral");
  std::erase_if(tensors, [](const OwnedTensor& t) { return contains(t.name, "mlp."); });
  for (const std::string layer : {"0", "1"}) {
    const std::string block = "model.layers." + layer + ".block_sparse_moe.";
    tensors.push_back(zeros(block + "gate.weight", DType::f32, {4, 16}));
    for (const std::string expert : {"0", "1", "2", "3"}) {
      const std::string name = block + "experts." + expert;
      tensors.push_back(zeros(name + ".w1.weight", DType::f32, {24, 16}));
      tensors.push_back(zeros(name + ".w2.weight", DType::f32, {16, 24}));
      tensors.push_back(zeros(name + ".w3.weight", DType::f32, {24, 16}));
    }
  }
  const json config = kvbench::test::tiny_config("mixtral");
  CHECK(error_with(config, tensors) == "no error");
  std::erase_if(tensors, [](const OwnedTensor& t) {
    return contains(t.name, "0.block_sparse_moe.experts.3.w2");
  });
  CHECK(contains(error_with(config, tensors), "block_sparse_moe.experts.3.w2.weight is missing"));
}

TEST_CASE("tied embeddings: absent, equal and other lm_head") {
  for (const char* name : {"tied_true_missing", "tied_true_present_equal"}) {
    CAPTURE(name);
    const Checkpoint checkpoint = Checkpoint::open(tiny_model(name));
    const ModelTensors tensors = collect(tiny_model(name), checkpoint);
    CHECK(tensors.lm_head_is_embedding);
    CHECK(tensors.lm_head.data == tensors.embedding.data);
    CHECK(tensors.warnings.empty());
  }
  const Checkpoint checkpoint = Checkpoint::open(tiny_model("tied_true_present_differs"));
  const ModelTensors tensors = collect(tiny_model("tied_true_present_differs"), checkpoint);
  CHECK_FALSE(tensors.lm_head_is_embedding);
  CHECK(tensors.lm_head.data == checkpoint.require("lm_head.weight").data);
  REQUIRE(tensors.warnings.size() == 1);
  CHECK(contains(tensors.warnings[0], "lm_head.weight"));
}

TEST_CASE("an untied lm_head stays a matrix of its own, even with the embedding's values") {
  json config = kvbench::test::tiny_config("tied_true_present_equal");
  config["tie_word_embeddings"] = false;
  const kvbench::test::TempDir directory;
  kvbench::test::write_config(directory, config);
  kvbench::test::write_tensors(directory, tiny_tensors("tied_true_present_equal"));
  const Checkpoint checkpoint = Checkpoint::open(directory.path());
  const ModelTensors tensors = collect(directory.path(), checkpoint);
  CHECK_FALSE(tensors.lm_head_is_embedding);
  CHECK(tensors.lm_head.data == checkpoint.require("lm_head.weight").data);
}

TEST_CASE("a shape that the config does not give is refused with both shapes") {
  const std::string error = error_of(tiny_model("llama_no_kv_key"));
  CHECK(contains(error, "k_proj.weight is [8, 16], expected [16, 16]"));
  json config = kvbench::test::tiny_config("llama");
  config["vocab_size"] = 30;
  CHECK(contains(error_with(config, tiny_tensors("llama")), "model.embed_tokens.weight"));
}

TEST_CASE("dtypes that are not computed with are refused by name") {
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  for (const DType dtype : {DType::f64, DType::f8_e4m3, DType::f8_e5m2, DType::i64, DType::i32,
                            DType::i8, DType::u8, DType::boolean}) {
    std::vector<OwnedTensor> tensors = tiny_tensors("llama");
    named(tensors, name) = zeros(name, dtype, {24, 16});
    const std::string error = error_with(kvbench::test::tiny_config("llama"), tensors);
    CHECK(contains(error, fmt::format("dtype {} of {} is not supported; expected F32, F16 or BF16",
                                      kvbench::dtype_name(dtype), name)));
  }
}

TEST_CASE("tensors that nothing uses are refused, saved buffers are not") {
  const json config = kvbench::test::tiny_config("llama");
  std::vector<OwnedTensor> tensors = tiny_tensors("llama");
  tensors.push_back(zeros("model.layers.0.self_attn.rotary_emb.inv_freq", DType::f32, {2}));
  tensors.push_back(zeros("model.layers.0.attention.bias", DType::boolean, {1, 1, 4, 4}));
  tensors.push_back(zeros("model.layers.0.attention.masked_bias", DType::f32, {}));
  CHECK(error_with(config, tensors) == "no error");
  tensors.push_back(zeros("model.layers.0.self_attn.q_norm.weight", DType::f32, {4}));
  CHECK(contains(error_with(config, tensors), "model.layers.0.self_attn.q_norm.weight"));
}

TEST_CASE("fewer layers in the config than in the checkpoint is no silent truncation") {
  json config = kvbench::test::tiny_config("llama");
  config["num_hidden_layers"] = 1;
  CHECK(contains(error_with(config, tiny_tensors("llama")), "model.layers.1."));
  config["num_hidden_layers"] = 3;
  CHECK(contains(error_with(config, tiny_tensors("llama")),
                 "model.layers.2.input_layernorm.weight is missing"));
}
