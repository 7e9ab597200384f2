// One sequence running through a model under one eviction policy: feeds tokens, scores them,
// evicts at the right moments. Several sessions can share a model and a backend.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "cache/kv_cache.hpp"
#include "engine/layer_evidence.hpp"
#include "model/model.hpp"
#include "model/sequence.hpp"
#include "model/transformer.hpp"
#include "policy/eviction_policy.hpp"

namespace kvbench {

struct SessionOptions {
  // Tokens per forward, where the policy's kept set follows from positions alone; others are fed
  // token by token. The results do not depend on it.
  std::int64_t chunk = 512;
  DType kv_dtype = DType::f32;  // f32 or bf16
  std::uint64_t seed = 0;
  // Quantised storage. A prompt attends to itself in full precision and is quantised after its last
  // token; what follows is fed token by token, whatever `chunk` says, because each token is to see
  // what those before it left quantised.
  std::optional<KiviOptions> kivi = {};
  // Attention with 1 added to its denominators (StreamingLLM, section 3.3), for checkpoints that
  // were trained so.
  bool softmax_off_by_one = false;
  // The model must have learned sinks; a session on one that has them uses them in any case.
  bool learned_sinks = false;
};

class Session final : private LayerHook {
 public:
  // All must outlive the session. ConfigError where policy and model do not go together. Sessions
  // on the same model, backend and options can share a transformer; without one it makes its own.
  Session(const Model& model, Backend& backend, EvictionPolicy& policy,
          const SessionOptions& options, std::shared_ptr<Transformer> transformer = nullptr);

  // Starts a new sequence of (about) `text_tokens` tokens: an empty cache and a fresh policy. The
  // model's learned sinks, if any, come before its first token, as tokens that nobody gave: they
  // are the first entries, count as fed, and shift the places of the text.
  // The length sizes the cache and fixes frequencies that depend on it (dynamic NTK scaling).
  void begin(std::int64_t text_tokens);

  // The prompt: fed in chunks, and compressed once, after its last token (after each chunk where
  // the policy's timing says so). A policy whose kept set follows from positions alone acts at each
  // token here too. Results are as those of `feed`.
  // `future` are the tokens that will be fed next, for policies that need them: ConfigError if
  // such a policy gets none.
  void prefill(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
               std::span<double> nll, std::span<const std::int32_t> future = {});

  // As `prefill`, without the forward: takes over the prompt that `source` has just been given,
  // after a `begin` of the same length. `source` runs a TwinPolicy for which gathers_for() holds on
  // the same model, backend and options, and stays as it is. What is kept, and everything later,
  // are as after a prefill of this session's own.
  void prefill_from(Session& source, std::span<const std::int32_t> ids,
                    std::span<const std::int32_t> future = {});

  // Goes on from where `source` stands, which stays as it is: a session of the same policy, model,
  // backend and options. Not with quantised storage.
  void continue_from(Session& source);

  // Gives the memory of the cache back. Call `begin` before anything else.
  void release();

  // Forgets all but the first `tokens` tokens, after the last of which last_logits() gave `logits`.
  // For sessions that keep everything.
  void rewind(std::int64_t tokens, std::span<const float> logits);

  // `observer` sees every layer's attention over tokens of the text from now on, with its
  // log_sum_exp, before anything is evicted; null: nobody does. Not where a window is re-computed.
  void observe(LayerHook* observer) { observer_ = observer; }

  // Continues the sequence with `ids`. nll[i] = -log p(targets[i]) after ids[0..i], for the first
  // targets.size() ids; nll has the same size.
  void feed(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
            std::span<double> nll);
  void feed(std::span<const std::int32_t> ids) { feed(ids, {}, {}); }

  // Whether tokens fed after the prompt can be taken back: they only ever added entries. So it is
  // under `full` and under policies that act on prompts; not with quantised storage.
  bool can_rewind() const;
  // Takes back the last `tokens` tokens, which were fed after the prompt; what is fed next follows
  // what stood before them. Precondition: can_rewind().
  void rewind(std::int64_t tokens);

  // Logits after the last token fed, by the last pass of the transformer. logits: [vocab_size].
  void last_logits(std::span<float> logits);
  std::int64_t vocab_size() const { return config_.vocab_size; }
  const PolicyTraits& traits() const { return traits_; }

  const KvCache& cache() const { return cache_; }
  // Places in the sequence of the entries of one head, ascending.
  std::vector<std::int32_t> kept_positions(std::int64_t layer, std::int64_t kv_head) const;
  // Learned sinks included.
  std::int64_t tokens_fed() const { return tokens_fed_; }
  // Entries dropped since `begin`, summed over layers and KV heads.
  std::int64_t evicted_entries() const { return cache_.evicted_entries() + recompute_dropped_; }
  // Of those, how many went although their score equals that of one that stayed.
  std::int64_t ties_at_cut() const { return ties_at_cut_; }

 private:
  friend class StreamBatch;

  void after_attention(const LayerState& state, KvCache& cache) override;
  bool runs_beside_others() const override;
  void look_and_select(const LayerState& state);

  std::span<const std::int32_t> after_sinks(std::span<const std::int32_t> ids);
  void feed_sinks();
  void run(std::span<const std::int32_t> ids, std::size_t unnamed,
           std::span<const std::int32_t> targets, std::span<double> nll);
  std::size_t advance(std::span<const std::int32_t> ids, bool scored);
  ForwardStep next_step(std::span<const std::int32_t> ids, std::size_t left);
  void limit_to_kept(std::size_t n_tokens, ForwardStep& step);
  void count_fed(std::size_t n, std::int64_t last_row);
  void forward(const ForwardStep& step) { transformer_->forward({&step, 1}); }
  void recompute_step(std::int32_t id, bool asked);
  bool selects_now(std::size_t left) const;
  void select_layer(const LayerState& state, std::int64_t tokens_seen);
  void keep_layer(std::int64_t layer, const KeepList& keep);
  std::int64_t budget(std::int64_t layer) const;
  bool selects_after_prompt() const;
  void set_prompt_capacity(std::int64_t prompt_tokens);
  void replay(std::span<const std::int32_t> prompt, std::span<const std::int32_t> future);
  void replay_prompt(std::span<const std::int32_t> prompt);
  void replay_tokens(std::span<const std::int32_t> ids, std::int64_t first_position);
  void drop_replayed(std::int64_t prompt_tokens);
  void select_after_prompt();
  LayerState finished_layer(std::int64_t layer);
  void trim_layer(std::int64_t layer, std::int64_t capacity);
  void share_capacity(std::int64_t longest);
  void take_entries(KvCache& source);
  std::int64_t tokens_per_step() const;

  const ModelConfig& config_;
  Backend& backend_;
  EvictionPolicy& policy_;
  PolicyTraits traits_;
  SessionOptions options_;
  KvCache cache_;
  Sequence sequence_;
  std::shared_ptr<Transformer> transformer_;
  LayerEvidence evidence_;
  LayerHook* observer_ = nullptr;
  std::int64_t capacity_ = kUnlimited;  // entries per KV head, once the prompt's length is known
  std::vector<std::int64_t> layer_capacity_;  // [n_layers], how the policy divides it
  bool in_prompt_ = false;
  bool selecting_ = false;        // the running step ends in a selection
  bool replaying_ = false;        // the running step belongs to a second pass
  bool quantising_ = false;       // the running step is followed by quantisation
  std::int64_t text_tokens_ = 0;  // as announced to `begin`
  std::int64_t tokens_fed_ = 0;
  std::int64_t decode_steps_ = 0;       // since the prompt
  std::int64_t decode_tokens_ = 0;      // since the prompt
  std::int64_t held_row_ = -1;          // of the last token fed, in the transformer; -1: none
  std::int64_t held_pass_ = 0;          // of the transformer, that left it there
  std::int64_t recompute_dropped_ = 0;  // entries that slid out of a re-computed window
  std::int64_t ties_at_cut_ = 0;
  std::int64_t learned_sinks_;
  std::vector<std::int32_t> led_ids_;       // learned sinks and the first ids of a sequence
  std::vector<std::int32_t> replaced_ids_;  // of a step, with sink tokens in their place
  std::vector<std::int32_t> tail_;  // the last tokens fed and some before, for re-computation
  KeepList keep_;                   // [n_kv_heads]
  // For selections after the prompt: each layer's last attention of prompt or second pass,
  // [n_layers], and the logits of the prompt's last token where the transformer does not hold them,
  // [vocab_size] or empty.
  std::vector<AttentionArgs> last_attention_;
  std::vector<float> saved_logits_;
};

}  // namespace kvbench
