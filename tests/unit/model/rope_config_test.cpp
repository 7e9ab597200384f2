// Rotary settings of config.json: old and new schema, contradictions, and what is refused.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "model/model_config.hpp"
#include "tests/unit/model/config_cases.hpp"

using kvbench::ModelConfig;
using kvbench::RopeType;
using kvbench::test::case_config;
using kvbench::test::contains;
using kvbench::test::error_of;
using kvbench::test::resolve;
using kvbench::test::tiny_llama;
using kvbench::test::with;
using kvbench::test::without;
using nlohmann::json;

TEST_CASE("rope: both schemas, and which of two contradicting keys wins") {
  const auto rope = [](const std::string& name) {
    return resolve(kvbench::test::tiny_config(name)).rope;
  };
  CHECK(rope("llama_linear_type").type == RopeType::linear);
  CHECK(rope("llama_linear_rope_type").type == RopeType::linear);
  CHECK(rope("llama_both_keys_conflict").type == RopeType::plain);
  CHECK(rope("llama_null_scaling").type == RopeType::plain);
  CHECK(rope("llama_v5_rope_parameters").theta == 500000.0);
  CHECK(rope("llama_theta_int").theta == 10000.0);
  CHECK(resolve(kvbench::test::tiny_config("llama_both_keys_conflict")).warnings.size() == 1);

  const ModelConfig conflict = resolve(case_config("llama_theta_conflict"));
  CHECK(conflict.rope.theta == 500000.0);
  CHECK(conflict.warnings.size() == 1);
  const ModelConfig both = resolve(case_config("llama_scaling_and_parameters"));
  CHECK(both.rope.type == RopeType::linear);
  CHECK(both.rope.factor == 2.0);
  CHECK(both.warnings.size() == 1);
  const json inside_only = without(case_config("llama_scaling_and_parameters"), "rope_theta");
  CHECK(resolve(inside_only).rope.theta == 500000.0);
}

TEST_CASE("rope: old and new schema of one checkpoint give the same frequencies") {
  const auto frequencies = [](const std::string& name) {
    return kvbench::rope_frequencies(resolve(case_config(name)).rope, 1).inv_freq;
  };
  CHECK(frequencies("llama31") == frequencies("llama31_v5"));
  CHECK(frequencies("llama31")[35] == doctest::Approx(9.55621217e-05).epsilon(1e-7));
}

TEST_CASE("rope: an explicit attention factor or mscale replaces yarn's formula") {
  const auto factor = [](const std::string& name) {
    return resolve(kvbench::test::tiny_config(name)).rope.attention_factor;
  };
  CHECK(factor("llama_yarn") == doctest::Approx(1.138629436));
  CHECK(factor("llama_yarn_af1") == 1.0);
  CHECK(factor("llama_yarn_mscale") == doctest::Approx(1.0));
  CHECK(resolve(case_config("qwen2_yarn_no_orig")).rope.original_max_positions == 32768);
}

TEST_CASE("rope: dynamic scaling counts from the model's own length") {
  const auto rope = resolve(kvbench::test::tiny_config("llama_dynamic_long")).rope;
  CHECK(rope.original_max_positions == 8);
  CHECK(kvbench::rope_frequencies(rope, 12).inv_freq[1] == doctest::Approx(1.0 / 300.0));
}

TEST_CASE("rope: settings that make no sense are refused by key") {
  const auto error = [](const json& scaling) {
    return error_of(with(tiny_llama(), {{"rope_scaling", scaling}}));
  };
  const std::string unknown = error({{"rope_type", "hyper9000"}, {"factor", 4.0}});
  CHECK(contains(unknown, "hyper9000"));
  for (const char* known : {"default", "linear", "dynamic", "llama3", "yarn"}) {
    CHECK(contains(unknown, known));
  }
  CHECK(contains(error("linear"), "rope_scaling"));
  CHECK(contains(error({{"type", "linear"}}), "rope_scaling.factor"));
  CHECK(contains(error({{"type", "linear"}, {"factor", 0}}), "factor"));
  CHECK(contains(error({{"type", "linear"}, {"factor", "4"}}), "factor"));
  CHECK(contains(error({{"factor", 4.0}}), "rope_type"));
  CHECK(contains(error({{"rope_type", "llama3"}, {"factor", 8.0}}), "low_freq_factor"));
  CHECK(contains(error({{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 4.0},
                        {"high_freq_factor", 4.0}}),
                 "high_freq_factor"));
  CHECK(contains(error({{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}),
                 "partial_rotary_factor"));
  CHECK(contains(error({{"full_attention", {{"rope_type", "default"}}}}), "full_attention"));
  CHECK(contains(error_of(with(tiny_llama(), {{"rope_theta", 0}})), "rope_theta"));
  CHECK(contains(error_of(with(tiny_llama(), {{"rope_theta", 1}})), "rope_theta"));
}

TEST_CASE("rope: an empty rope_scaling leaves the decision to rope_parameters") {
  const auto found = resolve(
      with(tiny_llama(), {{"rope_scaling", json::object()},
                          {"rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}}}}));
  CHECK(found.rope.type == RopeType::linear);
  CHECK(found.warnings.empty());
}

TEST_CASE("rope: where the trained context length comes from") {
  constexpr const char* kKey = "original_max_position_embeddings";
  json yarn = with(tiny_llama(), {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}}});
  CHECK(resolve(yarn).rope.original_max_positions == 64);
  yarn["rope_scaling"][kKey] = 16;
  CHECK(resolve(yarn).rope.original_max_positions == 16);
  CHECK(resolve(with(yarn, {{kKey, 32}})).rope.original_max_positions == 32);
  json dynamic = yarn;
  dynamic["rope_scaling"]["rope_type"] = "dynamic";
  CHECK(resolve(dynamic).rope.original_max_positions == 64);
}

TEST_CASE("rope: a null factor of yarn is the ratio of the two lengths") {
  json yarn = with(
      tiny_llama(),
      {{"rope_scaling",
        {{"rope_type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 16}}}});
  CHECK(resolve(yarn).rope.factor == 4.0);
  CHECK(resolve(yarn).rope.attention_factor == doctest::Approx(1.138629436));
  yarn["rope_scaling"]["rope_type"] = "linear";
  CHECK(contains(error_of(yarn), "rope_scaling.factor"));
}
