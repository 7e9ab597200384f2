// Prompts that several policies begin with: each is run once, with the full cache, and handed to
// every policy for which that is exact. A policy's results are those of a prompt of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "engine/session.hpp"
#include "engine/twin_policy.hpp"

namespace kvbench {

struct SharedPrompt {
  std::unique_ptr<Session> twin;  // after the prompt; for Session::prefill_from
  double seconds = 0.0;           // of the pass over it
};

class SharedPrompts {
 public:
  // All must outlive the prompts. `limit_bytes`: of keys and values held at a time; prompts beyond
  // it are not shared.
  SharedPrompts(const Model& model, Backend& backend, const SessionOptions& options,
                std::int64_t limit_bytes);

  // Tells of a policy that will run; call for each before the first `find`. Nothing is shared for
  // one policy alone.
  void add(const PolicyTraits& policy);

  // The prompt that `id` names, of a text of `text_tokens`, run now if it is asked for the first
  // time. Null where the policy needs a prompt of its own, or memory does not suffice.
  const SharedPrompt* find(std::int64_t id, std::span<const std::int32_t> prompt,
                           std::int64_t text_tokens, const PolicyTraits& policy);

  // Gives up all prompts, and sharing, where memory has run out. False if there were none.
  bool release();

 private:
  const Model& model_;
  Backend& backend_;
  SessionOptions options_;
  std::int64_t limit_bytes_;
  std::int64_t token_bytes_;
  std::int64_t held_bytes_ = 0;
  int sharers_ = 0;
  TwinPolicy policy_;
  std::map<std::int64_t, SharedPrompt> held_;
};

}  // namespace kvbench
