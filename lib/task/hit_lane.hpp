// One policy beside a full-cache twin: how it comes by what it keeps at each step, what it would
// have lost, and what its predictions lose.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "engine/session.hpp"
#include "engine/twin_policy.hpp"
#include "metric/hit_rate.hpp"
#include "model/model.hpp"
#include "policy/registry.hpp"

namespace kvbench {

// What twin and policies read.
struct HitText {
  std::span<const std::int32_t> prompt;
  std::span<const std::int32_t> inputs;   // one for each step
  std::span<const std::int32_t> targets;  // what each of them is followed by
};

class HitLane {
 public:
  // All must outlive the lane. Without `nll` nothing is run that the kept sets do not need.
  HitLane(const Model& model, Backend& backend, const ConfiguredPolicy& configured,
          const SessionOptions& options, bool nll);

  // After the twin's prompt; `shared`: whether the twin gathered for this policy.
  void begin(const HitText& text, Session& twin, bool shared);
  // Steps [first, first + count) of the text: keeps account of what is there in front of each, and
  // appends their losses.
  void feed(const HitText& text, std::int64_t first, std::int64_t count);
  // The same for a lane that leaves its losses to the twin, which they equal.
  bool takes_twin_losses() const { return nll_ && kind_ == Kind::everything; }
  void add_losses(std::span<const double> nll) {
    losses_.insert(losses_.end(), nll.begin(), nll.end());
  }

  // What a head holds when the step's query, at `position`, attends: the query's own entry too.
  // `step` is one of those fed last.
  KeptSet kept(std::int64_t step, std::int64_t position, std::int64_t layer,
               std::int64_t kv_head) const;

  const std::vector<double>& losses() const { return losses_; }
  double seconds = 0.0;  // of this policy alone

 private:
  enum class Kind : std::uint8_t {
    everything,  // what full keeps
    pattern,     // what is kept follows from positions
    fixed,       // what the prompt left, and all that came later
    moving       // chosen anew during the steps
  };

  void note_kept(std::int64_t index);
  std::size_t set_index(std::int64_t index, std::int64_t layer, std::int64_t kv_head) const;

  const Model& model_;
  const PolicyTraits& traits_;
  bool nll_;
  Kind kind_;
  std::unique_ptr<Session> session_;             // null where nothing needs one
  std::int64_t prompt_tokens_ = 0;               // learned sinks included
  std::int64_t first_step_ = 0;                  // of those fed last
  std::vector<std::vector<std::int32_t>> sets_;  // [steps fed last, or 1][n_layers][n_kv_heads]
  std::vector<std::int32_t> sinks_;              // 0 .. sinks-1, for patterns
  std::vector<double> losses_;
};

}  // namespace kvbench
