// What each family makes of its own keys; settings that it does not know; ALiBi slopes; the choice
// of experts.
#include "model/family.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "model/experts.hpp"
#include "model/families/family_keys.hpp"
#include "tests/unit/model/config_cases.hpp"

using kvbench::ModelConfig;
using kvbench::NormKind;
using kvbench::PositionKind;
using kvbench::QkNorm;
using kvbench::RopeType;
using kvbench::test::case_config;
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

// Which layers slide, as "SSF": sliding or full.
std::string pattern(const ModelConfig& config) {
  std::string text;
  for (const auto& window : config.sliding_windows) text += window ? 'S' : 'F';
  return text;
}

std::string rotation(const ModelConfig& config) {
  std::string text;
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    text += config.rope_of(layer) != nullptr ? 'R' : '-';
  }
  return text;
}

}  // namespace

TEST_CASE("an unknown family is refused with all known ones") {
  const std::string error = error_of(with(family_config("gpt2"), {{"model_type", "hyper9000"}}));
  CHECK(contains(error, "hyper9000"));
  for (const kvbench::FamilySpec& family : kvbench::families()) {
    CHECK(contains(error, std::string(family.model_type)));
  }
}

TEST_CASE("settings of other families are refused by name, in every family") {
  const std::vector<std::pair<std::string, json>> foreign = {
      {"residual_multiplier", 0.22},
      {"kv_lora_rank", 512},
      {"n_routed_experts", 64},
      {"attention_sinks", true},
      {"attn_soft_cap", 20.0},
      {"scale_depth", 1.4},
      {"num_kv_shared_layers", 4},
      {"mup_base_width", 256},
      {"use_qk_layernorm", true},
      {"moe_intermediate_size", 768},
      {"attention_chunk_size", 8192},
      {"attn_output_gate", true},
      {"query_key_norm", true},
      {"v_head_dim", 64},
      {"qk_rope_head_dim", 32},
      {"hidden_size_per_layer_input", 256},
      {"activation_sparsity_pattern", {0.95}},
      {"layernorm_1p", true},
      {"mamba_d_state", 16},
      {"layer_types", {"linear_attention"}},
      {"quantization_config", {{"quant_method", "awq"}}}};
  std::vector<json> configs;
  for (const char* name : {"phi3", "smollm3", "gemma2", "gemma3_text", "olmo2", "gpt2", "cohere2",
                           "mpt_clip", "falcon_one_norm", "gpt_neox"}) {
    configs.push_back(family_config(name));
  }
  for (const char* name : {"llama", "mistral_w4", "qwen2_flag_false", "qwen3", "cohere"}) {
    configs.push_back(kvbench::test::tiny_config(name));
  }
  for (const json& config : configs) {
    CAPTURE(config.at("model_type").get<std::string>());
    CHECK(error_of(config) == "no error");
    for (const auto& [key, value] : foreign) {
      CAPTURE(key);
      CHECK(contains(error_of(with(config, {{key, value}})), "key " + key));
      CHECK(error_of(with(config, {{key, nullptr}})) == "no error");
    }
  }
}

TEST_CASE("variants that a family does not have are refused by key") {
  const auto refused = [](const std::string& name, const std::string& key, const json& value) {
    CAPTURE(name);
    CAPTURE(key);
    CHECK(contains(error_of(with(family_config(name), {{key, value}})), key));
  };
  refused("gpt2", "scale_attn_by_inverse_layer_idx", true);
  refused("gpt2", "add_cross_attention", true);
  refused("gpt2", "activation_function", "relu");
  refused("mpt_clip", "no_bias", false);
  refused("mpt_clip", "attn_config", {{"alibi", false}});
  refused("mpt_clip", "attn_config", {{"qk_ln", true}});
  refused("mpt_clip", "attn_config", {{"prefix_lm", true}});
  refused("mpt_clip", "attn_config", {{"attn_type", "multiquery_attention"}});
  refused("mpt_clip", "logit_scale", "inv_sqrt_d_model");
  refused("falcon_one_norm", "parallel_attn", false);
  refused("falcon_one_norm", "num_kv_heads", 4);
  refused("gemma3_text", "use_bidirectional_attention", true);
  refused("cohere2", "use_parallel_block", false);
  refused("cohere2", "layer_types", {"full_attention"});
  refused("phi3", "partial_rotary_factor", 0.3);
  refused("phi3_longrope_long", "rope_scaling",
          {{"type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {1.0, 1.0, 1.0, 1.0}}});
  refused("smollm3", "no_rope_layers", {1, 0});
  refused("mixtral", "num_experts_per_tok", 9);
  refused("olmo2", "clip_qkv", 8.0);
}

TEST_CASE("Falcon: KV heads, norms and positions of its three generations") {
  const ModelConfig f7 = resolve(case_config("falcon7b"));
  CHECK(f7.n_kv_heads == 1);
  CHECK(f7.kv_bytes_per_token(kvbench::DType::bf16) * 2048 == 16'777'216);
  CHECK(f7.parallel_block);
  CHECK(f7.shared_input_norm);
  CHECK_FALSE(f7.qkv_bias);
  CHECK(f7.ffn_size == 4 * 4544);
  const ModelConfig f40 = resolve(case_config("falcon40b"));
  CHECK(f40.n_kv_heads == 8);
  CHECK_FALSE(f40.shared_input_norm);
  CHECK(resolve(family_config("falcon_one_norm")).shared_input_norm);

  const ModelConfig rw = resolve(kvbench::test::tiny_config("falcon_alibi"));
  CHECK(rw.positions == PositionKind::alibi);
  CHECK_FALSE(rw.parallel_block);
  CHECK(rw.n_kv_heads == 6);
  CHECK(rw.rope_of(0) == nullptr);
  REQUIRE(rw.warnings.size() == 1);
  const ModelConfig once =
      resolve(with(kvbench::test::tiny_config("falcon_alibi"), {{"attn_implementation", "sdpa"}}));
  CHECK(once.warnings.empty());
  // 1/4 inside a scale of 1/2.
  CHECK(once.alibi_slopes.at(0) == 0.125f);
  CHECK(rw.alibi_slopes.at(0) == 0.25f);
}

TEST_CASE("Command-R: tied, scaled, neighbours rotate; local layers of its successor") {
  const ModelConfig r = resolve(case_config("cohere_minimal"));
  CHECK(r.norm == NormKind::layer);
  CHECK_FALSE(r.norm_bias);
  CHECK(r.rope.interleaved);
  CHECK(r.rope.theta == 500000.0);
  CHECK(r.logit_scale == 0.0625);
  CHECK(r.tie_word_embeddings);
  CHECK(r.qk_norm == QkNorm::none);
  CHECK(resolve(family_config("cohere_qk_norm")).qk_norm == QkNorm::each_head);
  const ModelConfig r7b = resolve(with(family_config("cohere2"), {{"sliding_window_pattern", 2}}));
  CHECK(pattern(r7b) == "SFSF");
  CHECK(rotation(r7b) == "R-R-");
  const json saved_later = with(family_config("cohere2"), {{"_sliding_window_pattern", 3}});
  CHECK(pattern(resolve(saved_later)) == "SSFS");
}

TEST_CASE("GPT-NeoX: a quarter rotates unless the file says otherwise, in either schema") {
  CHECK(resolve(case_config("neox20b")).rope.rotary_dim == 24);
  CHECK(resolve(kvbench::test::tiny_config("neox_pct_absent")).rope.rotary_dim == 2);
  CHECK(resolve(kvbench::test::tiny_config("neox_pct1")).rope.rotary_dim == 8);
  const json newer =
      with(without(case_config("neox20b"), "rotary_pct"),
           {{"rope_parameters",
             {{"rope_type", "default"}, {"rope_theta", 20000.0}, {"partial_rotary_factor", 0.5}}}});
  CHECK(resolve(newer).rope.rotary_dim == 48);
  CHECK(resolve(newer).rope.theta == 20000.0);
}

TEST_CASE("Gemma: caps, scales, local layers and their own rotary base") {
  const ModelConfig two = resolve(without(
      without(family_config("gemma2"), "attn_logit_softcapping"), "final_logit_softcapping"));
  CHECK(two.attention_logit_cap == 50.0);
  CHECK(two.logit_cap == 30.0);
  CHECK(resolve(with(family_config("gemma2"), {{"final_logit_softcapping", nullptr}})).logit_cap ==
        0.0);
  CHECK(two.embedding_scale == 4.0);
  CHECK(two.attention_scale == doctest::Approx(1.0 / std::sqrt(12.0)));
  CHECK(pattern(two) == "SFS");
  const ModelConfig three = resolve(family_config("gemma3_text"));
  CHECK(pattern(three) == "SSF");
  CHECK(three.rope_of(0)->theta == 100.0);
  CHECK(three.rope_of(2)->theta == 1e6);
  CHECK(three.rope_of(2)->type == RopeType::linear);
  const json newer = with(without(family_config("gemma3_text"), "rope_local_base_freq"),
                          {{"rope_parameters",
                            {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 5e5}}},
                             {"sliding_attention", {{"rope_theta", 300.0}}}}}});
  const ModelConfig nested = resolve(without(without(newer, "rope_scaling"), "rope_theta"));
  CHECK(nested.rope_of(0)->theta == 300.0);
  CHECK(nested.rope_of(2)->theta == 5e5);
  CHECK(nested.rope_of(2)->type == RopeType::plain);
}

TEST_CASE("SmolLM3: layers without rotation") {
  CHECK(rotation(resolve(family_config("smollm3"))) == "R-R-");
  const ModelConfig window = resolve(family_config("smollm3_window"));
  CHECK(rotation(window) == "R-R");
  CHECK(pattern(window) == "FSF");
}

TEST_CASE("longrope: factors by the length of the text, attention factor by the two lengths") {
  const ModelConfig config = resolve(family_config("phi3_longrope_long"));
  CHECK(config.rope.type == RopeType::longrope);
  CHECK(kvbench::depends_on_length(config.rope));
  const auto short_text = rope_frequencies(config.rope, 16);
  const auto long_text = rope_frequencies(config.rope, 17);
  CHECK(short_text.inv_freq.at(0) == 1.0);
  CHECK(long_text.inv_freq.at(0) == doctest::Approx(1.0 / 1.5));
  CHECK(long_text.inv_freq.at(3) == doctest::Approx(std::pow(10000.0, -0.75) / 6.0));
  // sqrt(1 + ln 4 / ln 16)
  CHECK(long_text.attention_factor == doctest::Approx(std::sqrt(1.5)));
  CHECK(kvbench::longrope_attention_factor(1.0, 4096) == 1.0);
}

TEST_CASE("ALiBi slopes for any number of heads") {
  using Slopes = std::vector<float>;
  CHECK(kvbench::alibi_slopes(8, 8.0) ==
        Slopes{0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f, 0.0078125f, 0.00390625f});
  CHECK(kvbench::alibi_slopes(6, 8.0) ==
        Slopes{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f});
  CHECK(kvbench::alibi_slopes(1, 8.0) == Slopes{0.00390625f});
}

TEST_CASE("settings of MPT that the reference ignores are named in a warning") {
  CHECK(resolve(case_config("mpt7b")).warnings.empty());
  const ModelConfig h6 = resolve(kvbench::test::tiny_config("mpt_h6"));
  REQUIRE(h6.warnings.size() == 1);
  CHECK(contains(h6.warnings[0], "expansion_ratio"));
  CHECK(h6.ffn_size == 96);
  const ModelConfig scaled = resolve(with(
      family_config("mpt_clip"), {{"attn_config", {{"softmax_scale", 0.3}, {"clip_qkv", 2.0}}}}));
  CHECK(scaled.attention_scale == 0.3);
  CHECK(scaled.qkv_clip == 2.0);
}

TEST_CASE("experts: the largest logits, equal ones by index, weights that sum to 1") {
  const std::vector<float> logits{2.0f, 1.0f, 0.0f, 0.0f};
  const auto two = kvbench::pick_experts(logits, 2);
  REQUIRE(two.size() == 2);
  CHECK(two[0].expert == 0);
  CHECK(two[1].expert == 1);
  CHECK(two[0].weight == doctest::Approx(0.7310586));
  CHECK(two[1].weight == doctest::Approx(0.2689414));
  const std::vector<float> equal{1.0f, 3.0f, 3.0f, 3.0f};
  const auto ties = kvbench::pick_experts(equal, 2);
  CHECK(ties[0].expert == 1);
  CHECK(ties[1].expert == 2);
  CHECK(ties[0].weight == 0.5f);
  const std::vector<float> large{1000.0f, -1000.0f};
  CHECK(kvbench::pick_experts(large, 2)[0].weight == 1.0f);
}
