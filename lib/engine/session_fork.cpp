// Session, taking over another's prompt: copies of its entries and of what it gathered, and then
// this session's own selection.
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
  // Layer by layer as a forward over the prompt's last tokens appends and selects, so that the most
  // that is ever held is the same.
  const std::int64_t last = std::min(source.held_row_ + 1, prompt);
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    cache_.append_from(source.cache_, layer, 0, prompt - last, backend_);
  }
  evidence_.adopt(source.evidence_);
  last_attention_ = source.last_attention_;
  tokens_fed_ = prompt;
  held_row_ = 0;
  saved_logits_.resize(static_cast<std::size_t>(config_.vocab_size));
  source.last_logits(saved_logits_);
  const bool selects = capacity_ < kUnlimited && !selects_after_prompt();
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    cache_.append_from(source.cache_, layer, prompt - last, last, backend_);
    if (selects) select_layer(finished_layer(layer), tokens_fed_);
  }
  if (selects_after_prompt() && cache_.longest() > capacity_) {
    replay(ids, future);
    select_after_prompt();
  }
  cache_.shrink(std::max<std::int64_t>(0, text_tokens_ - tokens_fed_));
}

void Session::rewind(std::int64_t tokens, std::span<const float> logits) {
  KVB_CHECK(capacity_ == kUnlimited && tokens <= tokens_fed_, "rewinding a session that evicts");
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    for (std::int64_t kv_head = 0; kv_head < config_.n_kv_heads; ++kv_head) {
      cache_.truncate(layer, kv_head, tokens);
    }
  }
  tokens_fed_ = tokens;
  held_row_ = 0;
  decode_steps_ = 0;
  saved_logits_.assign(logits.begin(), logits.end());
}

}  // namespace kvbench
