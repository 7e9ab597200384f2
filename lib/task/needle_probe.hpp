// One question to a model under one policy: the prompt, the greedy answer, and the NLL of the right
// one. A context is fed once for all questions that follow it, where the policy lets what came
// after the prompt be taken back; else it is fed again. The results do not depend on that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/session.hpp"
#include "task/needle_prompt.hpp"

namespace kvbench {

struct ProbeQuestion {
  std::span<const std::int32_t> context;
  std::span<const std::int32_t> question;
  std::span<const std::int32_t> reply;          // the right answer, whose NLL is wanted; not empty
  std::span<const NeedlePlace> needles = {};    // tokens of which the share kept is wanted
  std::span<const std::int32_t> stop_ids = {};  // end a greedy answer
  std::int64_t new_tokens = 0;
  // The policy compresses the context before it sees the question; else both together.
  bool hidden = false;
};

struct ProbeResult {
  std::vector<std::int32_t> ids;  // greedy, without a stop id
  bool stopped = false;           // by a stop id, not by new_tokens
  double reply_nll = 0.0;         // sum over the reply's tokens
  // Of the needles' tokens, over layers and KV heads, just before the answer.
  double needle_kept = 0.0;
  std::int64_t evicted = 0;  // entries, up to there
  std::int64_t kv_bytes_live = 0;
  std::int64_t kv_bytes_peak = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t tokens_fed = 0;  // in all, a context that was there already left out
  double prompt_seconds = 0.0;
  double answer_seconds = 0.0;
};

class NeedleProbe {
 public:
  // All must outlive it.
  NeedleProbe(const Model& model, Backend& backend, EvictionPolicy& policy,
              const SessionOptions& options);

  ProbeResult ask(const ProbeQuestion& question);

 private:
  void start(const ProbeQuestion& question, ProbeResult& result);
  void answer_greedily(const ProbeQuestion& question, ProbeResult& result);
  void score_reply(const ProbeQuestion& question, ProbeResult& result);
  double needle_kept(std::span<const NeedlePlace> needles) const;
  void feed(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
            std::span<double> nll, ProbeResult& result);

  const Model& model_;
  bool knows_future_;  // the policy looks at what will follow: contexts are not shared
  Session session_;
  std::vector<std::int32_t> context_;  // compressed and in the cache, if it can be used again
  std::int64_t text_tokens_ = 0;       // announced for that context
  std::int64_t fed_after_context_ = 0;
  std::int64_t fed_after_prompt_ = 0;  // of the answer
  std::vector<float> logits_;          // [vocab_size] after the prompt
};

}  // namespace kvbench
