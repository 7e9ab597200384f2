// One question to a model under one policy: the prompt, the greedy answer, and the NLL of the right
// one. What the policy compresses is fed once for all that follows it, or taken from a twin that
// other policies share; with quantised storage it is fed again. The results do not depend on that.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/session.hpp"
#include "task/needle_prompt.hpp"
#include "task/prompt_twin.hpp"

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
  std::int64_t tokens_fed = 0;  // in all; of a prompt that was there already, none
  double prompt_seconds = 0.0;  // without a twin's pass
  double answer_seconds = 0.0;
};

class NeedleProbe {
 public:
  // All must outlive it. A twin, if there is one, serves the policy.
  NeedleProbe(const Model& model, Backend& backend, EvictionPolicy& policy,
              const SessionOptions& options, PromptTwin* twin = nullptr);

  ProbeResult ask(const ProbeQuestion& question);
  // Forgets the last context and gives its memory back.
  void release();

 private:
  bool stands_behind(const ProbeQuestion& question, std::int64_t text_tokens) const;
  void compress(const ProbeQuestion& question, ProbeResult& result);
  Session& at_question_end(const ProbeQuestion& question, ProbeResult& result);
  void answer_greedily(Session& session, const ProbeQuestion& question, ProbeResult& result);
  void score_reply(const ProbeQuestion& question, ProbeResult& result);
  double needle_kept(const Session& session, std::span<const NeedlePlace> needles) const;

  const Model& model_;
  PromptTwin* twin_;
  bool knows_future_;  // the policy looks at what will follow: contexts are not used again
  Session session_;    // behind what the policy compressed, if what came later is taken back
  bool copies_;        // it cannot be: what follows runs in a copy
  std::unique_ptr<Session> branch_;    // if `copies_`
  std::vector<std::int32_t> context_;  // hidden from the question and compressed; else empty
  std::int64_t text_tokens_ = 0;       // announced for what is compressed
  std::int64_t compressed_ = 0;        // tokens of it, learned sinks included
  std::vector<float> logits_;          // [vocab_size] after the prompt
};

}  // namespace kvbench
