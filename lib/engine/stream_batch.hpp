// Streams: sessions under the same policy on one model, whose next tokens go through the model in
// one forward pass. Where a policy wants one token at a time, products of the weights with a vector
// become products with a matrix. Each stream has its own cache, policy and place in its own text,
// and its results are those of a session alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "engine/session.hpp"
#include "model/model.hpp"
#include "model/transformer.hpp"
#include "policy/eviction_policy.hpp"

namespace kvbench {

class StreamBatch {
 public:
  using MakePolicy = std::function<std::unique_ptr<EvictionPolicy>()>;

  // Model and backend must outlive it. ConfigError as of Session.
  StreamBatch(const Model& model, Backend& backend, std::int64_t n_streams,
              const MakePolicy& make_policy, const SessionOptions& options);

  std::int64_t size() const { return static_cast<std::int64_t>(streams_.size()); }
  // To begin a sequence, to feed a prompt, and to look at. Tokens that it is fed itself go alone.
  Session& session(std::int64_t stream) { return streams_[index(stream)].session; }

  // What one stream is fed in a pass, as Session::feed has it.
  struct Turn {
    std::int64_t stream;
    std::span<const std::int32_t> ids;  // at least 1, at most tokens_per_turn()
    std::span<const std::int32_t> targets = {};
    std::span<double> nll = {};
  };
  // One token where the policy acts at each; else the streams share a chunk.
  std::int64_t tokens_per_turn() const;
  // One pass over the ids of all turns, whose streams ascend.
  void feed(std::span<const Turn> turns);
  // After a feed of one token each: the logits of each turn, [turns, vocab_size].
  void last_logits(std::span<float> logits);

 private:
  struct Stream {
    Stream(const Model& model, Backend& backend, std::unique_ptr<EvictionPolicy> made,
           const SessionOptions& options, const std::shared_ptr<Transformer>& transformer)
        : policy(std::move(made)), session(model, backend, *policy, options, transformer) {}
    std::unique_ptr<EvictionPolicy> policy;
    Session session;
  };

  std::size_t index(std::int64_t stream) const;
  void score(std::span<const Turn> turns);

  std::int64_t chunk_;
  std::shared_ptr<Transformer> transformer_;
  std::deque<Stream> streams_;
  // Of the pass at work; kept for their memory.
  std::vector<ForwardStep> steps_;
  std::vector<std::int32_t> targets_;  // [rows]
  std::vector<double> nll_;            // [rows]
};

}  // namespace kvbench
