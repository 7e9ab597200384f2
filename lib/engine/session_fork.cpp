// Session, taking over another's prompt (copies of its entries and of what it gathered, and then
// this session's own selection), and taking back what was fed.
#include <algorithm>

#include "core/error.hpp"
#include "engine/session.hpp"
#include "engine/twin_policy.hpp"

namespace kvbench {

void LayerEvidence::adopt(const LayerEvidence& source) {
  if (needs_.mass) mass_ = source.mass_;
  if (needs_.query_moments) moments_ = source.moments_;
  if (needs_.window == 0) return;
  const std::int64_t width = n_heads * head_dim;
  const auto row_bytes = static_cast<std::size_t>(width) * sizeof(float);
  for (std::size_t i = 0; i < recent_.size(); ++i) {
    const RecentQueries& from = source.recent_[i];
    RecentQueries& to = recent_[i];
    to.begin = 0;
    to.count = std::min(from.count, needs_.window);
    if (to.q.bytes() == 0) {
      to.q = backend_.allocate(2 * static_cast<std::size_t>(needs_.window) * row_bytes);
    }
    if (to.count == 0) continue;
    const std::int64_t first = from.begin + from.count - to.count;
    backend_.copy_rows(to.q.as<float>(), from.q.as<float>() + first * width,
                       static_cast<std::size_t>(to.count) * row_bytes);
  }
}

void Session::prefill_from(Session& source, std::span<const std::int32_t> ids,
                           std::span<const std::int32_t> future) {
  KVB_CHECK(TwinPolicy::can_share(traits_) && !options_.kivi, "the policy needs its own prompt");
  KVB_CHECK(tokens_fed_ == 0 && text_tokens_ == source.text_tokens_,
            "a prompt taken over by a session that did not begin the same text");
  ids = after_sinks(ids);
  const auto prompt = static_cast<std::int64_t>(ids.size());
  KVB_CHECK(source.tokens_fed_ == prompt && source.cache_.evicted_entries() == 0,
            "{} tokens to take over from a session of {}", prompt, source.tokens_fed_);
  set_prompt_capacity(prompt);
  cache_.reserve(prompt);
  evidence_.adopt(source.evidence_);
  last_attention_ = source.last_attention_;
  tokens_fed_ = prompt;
  held_row_ = 0;
  saved_logits_.resize(static_cast<std::size_t>(config_.vocab_size));
  source.last_logits(saved_logits_);
  take_entries(source.cache_);
  if (selects_after_prompt() && cache_.longest() > capacity_) {
    replay(ids, future);
    select_after_prompt();
  }
  cache_.shrink(std::max<std::int64_t>(0, text_tokens_ - tokens_fed_));
}

// As the prompt's last forward does: a layer selects before the next one gets its entries of that
// forward, so that the most that is ever held is the same.
void Session::take_entries(KvCache& source) {
  const bool selects = !selects_after_prompt() && capacity_ < kUnlimited;
  const std::int64_t before = (tokens_fed_ - 1) / options_.chunk * options_.chunk;
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    cache_.append_from(source, layer, 0, before, backend_);
  }
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    cache_.append_from(source, layer, before, tokens_fed_, backend_);
    if (selects) select_layer(finished_layer(layer), tokens_fed_);
  }
}

void Session::continue_from(Session& source) {
  KVB_CHECK(&source.policy_ == &policy_ && !options_.kivi, "continuing another policy's session");
  begin(source.text_tokens_ - learned_sinks_);
  cache_.copy_from(source.cache_, backend_);
  evidence_.adopt(source.evidence_);
  capacity_ = source.capacity_;
  layer_capacity_ = source.layer_capacity_;
  tokens_fed_ = source.tokens_fed_;
  decode_steps_ = source.decode_steps_;
  decode_tokens_ = source.decode_tokens_;
  recompute_dropped_ = source.recompute_dropped_;
  ties_at_cut_ = source.ties_at_cut_;
  tail_ = source.tail_;
  if (source.held_row_ < 0) return;
  held_row_ = 0;
  saved_logits_.resize(static_cast<std::size_t>(config_.vocab_size));
  source.last_logits(saved_logits_);
}

void Session::release() {
  cache_.clear();
  cache_.shrink(0);
}

bool Session::can_rewind() const {
  const bool keeps_all = traits_.capacity == kUnlimited && !traits_.keep_share;
  const bool acts_on_prompts = !traits_.kept && traits_.timing != EvictTiming::decode;
  return (keeps_all || acts_on_prompts) && !traits_.recompute_length && !options_.kivi;
}

void Session::rewind(std::int64_t tokens) {
  KVB_CHECK(can_rewind() && tokens >= 0 && tokens <= decode_tokens_,
            "{} tokens to take back, of {} after the prompt", tokens, decode_tokens_);
  if (tokens == 0) return;
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    for (std::int64_t kv_head = 0; kv_head < config_.n_kv_heads; ++kv_head) {
      cache_.truncate(layer, kv_head, cache_.length(layer, kv_head) - tokens);
    }
  }
  tokens_fed_ -= tokens;
  decode_tokens_ -= tokens;
  held_row_ = -1;
  saved_logits_.clear();
}

void Session::rewind(std::int64_t tokens, std::span<const float> logits) {
  KVB_CHECK(capacity_ == kUnlimited && tokens <= tokens_fed_, "rewinding a session that evicts");
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    for (std::int64_t kv_head = 0; kv_head < config_.n_kv_heads; ++kv_head) {
      cache_.truncate(layer, kv_head, tokens);
    }
  }
  decode_tokens_ -= std::min(decode_tokens_, tokens_fed_ - tokens);
  tokens_fed_ = tokens;
  held_row_ = 0;
  decode_steps_ = 0;
  saved_logits_.assign(logits.begin(), logits.end());
}

}  // namespace kvbench
