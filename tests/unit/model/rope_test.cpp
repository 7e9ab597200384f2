// Rotary frequencies of every scaling type, against numbers of the reference implementation.
#include <doctest/doctest.h>

#include <cmath>

#include "core/error.hpp"
#include "model/rope.hpp"

using kvbench::rope_frequencies;
using kvbench::RopeConfig;
using kvbench::RopeType;

namespace {

RopeConfig llama31() {
  return {.type = RopeType::llama3,
          .theta = 500000.0,
          .rotary_dim = 128,
          .factor = 8.0,
          .original_max_positions = 8192,
          .low_freq_factor = 1.0,
          .high_freq_factor = 4.0};
}

RopeConfig qwen2_yarn() {
  return {.type = RopeType::yarn,
          .theta = 1000000.0,
          .rotary_dim = 128,
          .factor = 4.0,
          .original_max_positions = 32768,
          .attention_factor = kvbench::yarn_attention_factor(4.0, 0.0, 0.0)};
}

void check_close(double found, double expected) {
  CHECK(std::abs(found - expected) <= 2e-7 * std::abs(expected));
}

}  // namespace

TEST_CASE("plain frequencies are powers of theta over the rotating dims only") {
  const auto whole = rope_frequencies({.theta = 10000.0, .rotary_dim = 4}, 1);
  REQUIRE(whole.inv_freq.size() == 2);
  CHECK(whole.inv_freq[0] == 1.0);
  check_close(whole.inv_freq[1], 0.01);
  CHECK(whole.attention_factor == 1.0);
  const auto quarter = rope_frequencies({.theta = 10000.0, .rotary_dim = 24}, 1);
  CHECK(quarter.inv_freq.size() == 12);
}

TEST_CASE("linear scaling divides every frequency") {
  const auto found = rope_frequencies(
      {.type = RopeType::linear, .theta = 10000.0, .rotary_dim = 4, .factor = 4.0}, 1);
  check_close(found.inv_freq[0], 0.25);
  check_close(found.inv_freq[1], 0.0025);
}

TEST_CASE("llama3 scaling keeps fast pairs, divides slow ones, blends between") {
  const auto inv_freq = rope_frequencies(llama31(), 100000).inv_freq;
  REQUIRE(inv_freq.size() == 64);
  check_close(inv_freq[0], 1.0);
  check_close(inv_freq[28], 3.21144611e-03);
  check_close(inv_freq[29], 2.16657063e-03);
  check_close(inv_freq[30], 1.37189368e-03);
  check_close(inv_freq[34], 1.78507791e-04);
  check_close(inv_freq[35], 9.55621217e-05);
  check_close(inv_freq[63], 3.06892588e-07);
}

TEST_CASE("dynamic scaling depends on the length of the text beyond the trained context") {
  const RopeConfig config{.type = RopeType::dynamic,
                          .theta = 10000.0,
                          .rotary_dim = 4,
                          .factor = 4.0,
                          .original_max_positions = 8};
  CHECK(kvbench::depends_on_length(config));
  check_close(rope_frequencies(config, 1).inv_freq[1], 0.01);
  check_close(rope_frequencies(config, 8).inv_freq[1], 0.01);
  check_close(rope_frequencies(config, 12).inv_freq[1], 1.0 / 300.0);
  check_close(rope_frequencies(config, 13).inv_freq[1], 1.0 / 350.0);
  CHECK_FALSE(kvbench::depends_on_length(llama31()));
}

TEST_CASE("yarn frequencies and attention factor") {
  const auto found = rope_frequencies(qwen2_yarn(), 1);
  check_close(found.attention_factor, 1.138629436);
  check_close(found.inv_freq[22], 8.65964312e-03);
  check_close(found.inv_freq[23], 6.97830599e-03);
  check_close(found.inv_freq[39], 6.49039430e-05);
  check_close(found.inv_freq[63], 3.10234441e-07);
}

TEST_CASE("yarn's ramp moves when its ends are not rounded") {
  RopeConfig config = qwen2_yarn();
  const auto rounded = rope_frequencies(config, 1).inv_freq;
  config.truncate = false;
  const auto exact = rope_frequencies(config, 1).inv_freq;
  CHECK(exact[24] != rounded[24]);
  CHECK(exact[0] == rounded[0]);
  CHECK(exact[63] == rounded[63]);
}

TEST_CASE("yarn attention factor: both mscales or neither count") {
  CHECK(kvbench::yarn_attention_factor(4.0, 1.0, 1.0) == doctest::Approx(1.0));
  CHECK(kvbench::yarn_attention_factor(4.0, 1.0, 0.0) == doctest::Approx(1.138629436));
  CHECK(kvbench::yarn_attention_factor(40.0, 1.0, 0.8) ==
        doctest::Approx((0.1 * std::log(40.0) + 1.0) / (0.08 * std::log(40.0) + 1.0)));
  CHECK(kvbench::yarn_attention_factor(1.0, 0.0, 0.0) == 1.0);
}

TEST_CASE("frequencies of an unresolved config are a broken promise") {
  CHECK_THROWS_AS(rope_frequencies({}, 1), kvbench::InternalError);
}
