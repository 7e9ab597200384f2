// SmolLM2 asked for pass keys in Emma, against published code: the full cache token by token, and
// what is left of the answers when a prompt is compressed with the question or before it.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "metric/answer_match.hpp"
#include "policy/registry.hpp"
#include "task/needle_probe.hpp"
#include "tests/golden/smollm2.hpp"
#include "tests/support/tiny_model.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

// Sinks and the last tokens, chosen once, after the prompt: what kvpress calls StreamingLLM.
class FirstAndLast final : public EvictionPolicy {
 public:
  FirstAndLast() {
    traits_.keep_share = 0.5;
    traits_.timing = EvictTiming::prefill;
  }
  const PolicyTraits& traits() const override { return traits_; }
  void select(LayerView& view, KeepList& keep) override {
    for (std::size_t head = 0; head < keep.size(); ++head) {
      const auto entries = std::ssize(view.positions(static_cast<std::int64_t>(head)));
      for (std::int64_t slot = 0; slot < entries; ++slot) {
        const bool stays = slot < kSinks || slot >= entries - (view.capacity - kSinks);
        if (stays) keep[head].push_back(static_cast<std::int32_t>(slot));
      }
    }
  }

 private:
  static constexpr std::int64_t kSinks = 4;
  PolicyTraits traits_;
};

std::unique_ptr<EvictionPolicy> policy_of(const std::string& press) {
  if (press == "streamingllm_0.5") return std::make_unique<FirstAndLast>();
  if (press == "full") return make_policy("full").policy;
  if (press == "expected_attention_0.5") {
    return make_policy("expected_attention:keep=0.5,epsilon=0.01").policy;
  }
  const std::string snapkv = "snapkv:variant=kvpress,window=32,keep=";
  // The number of the press is the share that goes.
  if (press == "snapkv_0.25") return make_policy(snapkv + "0.75").policy;
  if (press == "snapkv_0.5") return make_policy(snapkv + "0.5").policy;
  REQUIRE(press == "snapkv_0.75");
  return make_policy(snapkv + "0.25").policy;
}

struct Mode {
  std::unique_ptr<EvictionPolicy> policy;
  std::unique_ptr<NeedleProbe> probe;
  std::int64_t right = 0, expected_right = 0, same_ids = 0, ids = 0;
};

void ask(const json& prompt, const std::string& name, const Tokenizer& tokenizer, Mode& mode) {
  const Ids context = prompt["context"].get<Ids>();
  const Ids question = prompt["question"].get<Ids>();
  const std::string answer = prompt["answer"];
  const Ids reply = tokenizer.encode(" " + answer);
  const json& expected = prompt["runs"][name];
  const Ids ids = expected["ids"].get<Ids>();
  const ProbeResult result = mode.probe->ask({.context = context,
                                              .question = question,
                                              .reply = reply,
                                              .new_tokens = std::ssize(ids),
                                              .hidden = name.starts_with("hidden/")});
  const std::string text = tokenizer.decode(result.ids);
  CHECK(std::ssize(context) + std::ssize(question) == prompt["length"]);
  mode.right += match_answers({&answer, 1}, text).contains;
  mode.expected_right += expected["ok"].get<std::int64_t>();
  for (std::size_t i = 0; i < ids.size(); ++i) mode.same_ids += result.ids[i] == ids[i] ? 1 : 0;
  mode.ids += std::ssize(ids);
  if (name != "full") return;
  CHECK(result.ids == ids);
  CHECK(leading_characters_right(answer, text) == expected["leading"]);
  CHECK(result.reply_nll < 3.0);
}

void compare(std::size_t first, std::size_t end) {
  const json reference = test::read_golden("needle.json");
  const auto tokenizer = Tokenizer::load(test::smollm2_directory());
  const json& prompts = reference["prompts"];
  for (const auto& [name, unused] : prompts[0]["runs"].items()) {
    CAPTURE(name);
    Mode mode;
    mode.policy = policy_of(name.substr(name.find('/') + 1));
    mode.probe = std::make_unique<NeedleProbe>(test::smollm2(), test::golden_backend(),
                                               *mode.policy, SessionOptions{});
    for (std::size_t i = first; i < std::min(end, prompts.size()); ++i) {
      ask(prompts[i], name, *tokenizer, mode);
    }
    MESSAGE(name << ": " << mode.right << " right, published " << mode.expected_right << "; "
                 << mode.same_ids << " of " << mode.ids << " ids equal");
    CHECK(std::abs(mode.right - mode.expected_right) <= 1);
    CHECK(10 * mode.same_ids >= 9 * mode.ids);
  }
}

TEST_CASE("needles: published answers under full, snapkv, expected attention and sinks") {
  compare(0, 5);
}

// Minutes of work, so by hand: needle_golden --no-skip
TEST_CASE("needles: published answers, the longer prompts" * doctest::skip()) {
  compare(5, 16);
}

}  // namespace
}  // namespace kvbench
