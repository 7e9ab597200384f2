// Session, selection after the prompt: the second pass behind it, and choosing once every layer is
// there.
#include <algorithm>
#include <iterator>

#include "core/error.hpp"
#include "engine/session.hpp"

namespace kvbench {
namespace {

// The end of a reconstructed chunk stands before the next one, to say where that begins.
constexpr std::int64_t kCueTokens = 8;

}  // namespace

void Session::replay(std::span<const std::int32_t> prompt, std::span<const std::int32_t> future) {
  const auto tokens = traits_.needs.replay.tokens;
  if (tokens == ReplayNeeds::Tokens::none) return;
  const auto n = static_cast<std::int64_t>(prompt.size());
  KVB_CHECK(tokens_fed_ == n, "a second pass over a prompt of {} tokens, but {} were fed", n,
            tokens_fed_);
  if (tokens == ReplayNeeds::Tokens::continuation && future.empty()) {
    config_error(
        "the policy looks at the tokens after the prompt, and this task knows none (give the "
        "continuation, or score one)");
  }
  std::vector<float> logits(static_cast<std::size_t>(config_.vocab_size));
  last_logits(logits);
  replaying_ = true;
  evidence_.replay().begin(n);
  if (tokens == ReplayNeeds::Tokens::prompt) {
    replay_prompt(prompt);
  } else {
    replay_tokens(future, n);
    drop_replayed(n);
  }
  replaying_ = false;
  saved_logits_ = std::move(logits);
}

void Session::replay_prompt(std::span<const std::int32_t> prompt) {
  const ReplayNeeds& needs = traits_.needs.replay;
  const auto n = static_cast<std::int64_t>(prompt.size());
  std::vector<std::int32_t> ids;
  for (std::int64_t first = 0; first < n; first += needs.chunk) {
    const std::int64_t end = std::min(first + needs.chunk, n);
    const std::int64_t cue = std::min(first, kCueTokens);
    ids = needs.instruction;
    std::copy(prompt.begin() + first - cue, prompt.begin() + end, std::back_inserter(ids));
    evidence_.replay().begin_chunk(first, end);
    replay_tokens(ids, n);
    drop_replayed(n);
  }
}

// Feeds tokens behind the prompt without counting them as part of the text.
void Session::replay_tokens(std::span<const std::int32_t> ids, std::int64_t first_position) {
  const auto most =
      static_cast<std::size_t>(std::min(options_.chunk, evidence_.replay().tokens_per_step()));
  for (std::size_t first = 0; first < ids.size(); first += most) {
    forward({.sequence = &sequence_,
             .ids = ids.subspan(first, std::min(most, ids.size() - first)),
             .first_position = first_position + static_cast<std::int64_t>(first),
             .pattern = {},
             .want_log_sum_exp = true,
             .hook = this});
  }
}

void Session::drop_replayed(std::int64_t prompt_tokens) {
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    for (std::int64_t kv_head = 0; kv_head < config_.n_kv_heads; ++kv_head) {
      cache_.truncate(layer, kv_head, prompt_tokens);
    }
  }
}

// A layer as it was after the last attention over it, with the entries that it holds now.
LayerState Session::finished_layer(std::int64_t layer) {
  AttentionArgs& attention = last_attention_[static_cast<std::size_t>(layer)];
  attention.kv = cache_.view(layer);
  return {layer, attention};
}

void Session::select_after_prompt() {
  if (traits_.scope == EvictScope::layer) {
    for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
      select_layer(finished_layer(layer), tokens_fed_);
    }
    return;
  }
  class AllLayers final : public ModelView {
   public:
    explicit AllLayers(Session& session) : session_(session) {
      n_layers = session.config_.n_layers;
    }
    LayerView& layer(std::int64_t index) override {
      session_.evidence_.show(session_.finished_layer(index), session_.tokens_fed_,
                              session_.budget(index));
      return session_.evidence_;
    }

   private:
    Session& session_;
  };
  AllLayers view(*this);
  std::vector<KeepList> keep(static_cast<std::size_t>(config_.n_layers),
                             KeepList(static_cast<std::size_t>(config_.n_kv_heads)));
  policy_.select_model(view, keep);
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    const KeepList& kept = keep[static_cast<std::size_t>(layer)];
    keep_layer(layer, kept);
    ties_at_cut_ += kept.ties_at_cut;
  }
}

}  // namespace kvbench
