// Definitions of prompt_twin.hpp.
#include "task/prompt_twin.hpp"

#include <algorithm>
#include <numeric>

#include "core/clock.hpp"
#include "report/environment.hpp"

namespace kvbench {

PromptTwin::PromptTwin(const Model& model, Backend& backend, const SessionOptions& options,
                       const std::vector<const ConfiguredPolicy*>& policies) {
  for (const ConfiguredPolicy* configured : policies) policy_.add(configured->policy->traits());
  session_ = std::make_unique<Session>(model, backend, policy_, options);
}

Session& PromptTwin::after(std::span<const std::int32_t> prompt, std::int64_t text_tokens) {
  if (text_tokens == text_tokens_ && std::ranges::equal(prompt, prompt_)) return *session_;
  const auto start = Clock::now();
  text_tokens_ = -1;  // until the pass is whole
  session_->begin(text_tokens);
  session_->prefill(prompt, {}, {});
  prompt_.assign(prompt.begin(), prompt.end());
  text_tokens_ = text_tokens;
  last_seconds_ = seconds_since(start);
  seconds_ += last_seconds_;
  return *session_;
}

std::int64_t prompt_passes(const std::vector<ConfiguredPolicy>& policies) {
  TwinPolicy twin;
  std::int64_t shared = 0;
  std::int64_t own = 0;
  for (const ConfiguredPolicy& configured : policies) {
    const PolicyTraits& traits = configured.policy->traits();
    if (twin.add(traits)) {
      shared = 1;
    } else {
      own += traits.recompute_length.value_or(1);
    }
  }
  return shared + own;
}

PromptSharing share_prompts(const Model& model, Backend& backend, const SessionOptions& options,
                            const std::vector<const ConfiguredPolicy*>& policies,
                            std::int64_t longest_prompt) {
  PromptSharing sharing;
  std::vector<std::size_t> order(policies.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return policies[i]->name == "full"; });
  const std::int64_t needed =
      2 * longest_prompt * model.config().kv_bytes_per_token(options.kv_dtype);
  const std::int64_t limit = usable_memory_bytes();
  const bool fits = limit == 0 || needed <= limit;
  std::vector<std::size_t> alone;
  std::vector<std::size_t> together;
  if (fits && !options.kivi) {
    sharing.twin = std::make_unique<PromptTwin>(model, backend, options, policies);
  }
  for (const std::size_t i : order) {
    const bool shares = sharing.twin != nullptr && sharing.twin->serves(*policies[i]);
    (shares ? together : alone).push_back(i);
  }
  if (together.size() > 1) {
    sharing.groups.push_back(std::move(together));
  } else {
    sharing.twin.reset();
    alone = order;
  }
  for (const std::size_t i : alone) sharing.groups.push_back({i});
  return sharing;
}

}  // namespace kvbench
