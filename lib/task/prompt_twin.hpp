// The full cache behind the prompts of a run: one pass over a prompt serves every policy for which
// that is exact. Their sessions copy it, and choose what to keep.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "engine/session.hpp"
#include "engine/twin_policy.hpp"
#include "model/model.hpp"
#include "policy/registry.hpp"

namespace kvbench {

class PromptTwin {
 public:
  // All must outlive it; without quantised storage.
  PromptTwin(const Model& model, Backend& backend, const SessionOptions& options,
             const std::vector<const ConfiguredPolicy*>& policies);

  // Whether a session of this policy can take its prompts from here.
  bool serves(const ConfiguredPolicy& policy) const {
    return policy_.gathers_for(policy.policy->traits());
  }
  // The full cache after this prompt, in a text of so many tokens: a pass, unless it stands there.
  Session& after(std::span<const std::int32_t> prompt, std::int64_t text_tokens);
  // Of all passes, and of the one that stands there.
  double seconds() const { return seconds_; }
  double last_seconds() const { return last_seconds_; }

 private:
  TwinPolicy policy_;
  std::unique_ptr<Session> session_;
  std::vector<std::int32_t> prompt_;
  std::int64_t text_tokens_ = -1;
  double seconds_ = 0.0;
  double last_seconds_ = 0.0;
};

// How often these policies pass over each prompt, in a run that shares what can be shared.
std::int64_t prompt_passes(const std::vector<ConfiguredPolicy>& policies);

// How a run divides its policies.
struct PromptSharing {
  // Indices of policies; groups run one after another. The first has all that the twin serves, if
  // there is one; else each has one policy. `full` comes as early as that allows.
  std::vector<std::vector<std::size_t>> groups;
  std::unique_ptr<PromptTwin> twin;  // null: nothing is shared

  PromptTwin* twin_of(std::size_t group) const { return group == 0 ? twin.get() : nullptr; }
};

// Prompts are shared by two policies or more, where the longest one fits into memory twice.
PromptSharing share_prompts(const Model& model, Backend& backend, const SessionOptions& options,
                            const std::vector<const ConfiguredPolicy*>& policies,
                            std::int64_t longest_prompt);

}  // namespace kvbench
