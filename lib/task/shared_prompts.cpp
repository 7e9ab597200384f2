// Definitions of shared_prompts.hpp.
#include "task/shared_prompts.hpp"

#include "core/clock.hpp"

namespace kvbench {

SharedPrompts::SharedPrompts(const Model& model, Backend& backend, const SessionOptions& options,
                             std::int64_t limit_bytes)
    : model_(model),
      backend_(backend),
      options_(options),
      limit_bytes_(limit_bytes),
      token_bytes_(model.config().kv_bytes_per_token(options.kv_dtype)) {}

void SharedPrompts::add(const PolicyTraits& policy) {
  if (!options_.kivi && policy_.add(policy)) ++sharers_;
}

const SharedPrompt* SharedPrompts::find(std::int64_t id, std::span<const std::int32_t> prompt,
                                        std::int64_t text_tokens, const PolicyTraits& policy) {
  if (sharers_ < 2 || !policy_.gathers_for(policy)) return nullptr;
  const auto found = held_.find(id);
  if (found != held_.end()) return &found->second;
  const std::int64_t bytes = std::ssize(prompt) * token_bytes_;
  if (held_bytes_ + bytes > limit_bytes_) return nullptr;
  const auto start = Clock::now();
  SharedPrompt made{.twin = std::make_unique<Session>(model_, backend_, policy_, options_)};
  made.twin->begin(text_tokens);
  made.twin->prefill(prompt, {}, {});
  made.seconds = seconds_since(start);
  held_bytes_ += bytes;
  return &held_.emplace(id, std::move(made)).first->second;
}

bool SharedPrompts::release() {
  if (held_.empty()) return false;
  held_.clear();
  held_bytes_ = 0;
  sharers_ = 0;
  return true;
}

}  // namespace kvbench
