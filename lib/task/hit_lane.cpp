// Definitions of hit_lane.hpp.
#include "task/hit_lane.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"

namespace kvbench {

HitLane::HitLane(const Model& model, Backend& backend, const ConfiguredPolicy& configured,
                 const SessionOptions& options, bool nll)
    : model_(model), traits_(configured.policy->traits()), nll_(nll) {
  if (traits_.kept) {
    const bool full = traits_.capacity == kUnlimited && !traits_.sink_token;
    kind_ = full ? Kind::everything : Kind::pattern;
    sinks_.resize(static_cast<std::size_t>(traits_.kept->sinks));
  } else if (traits_.recompute_length) {
    kind_ = Kind::pattern;
  } else {
    kind_ = traits_.timing == EvictTiming::decode ? Kind::moving : Kind::fixed;
  }
  std::iota(sinks_.begin(), sinks_.end(), 0);
  const bool chooses = kind_ == Kind::fixed || kind_ == Kind::moving;
  if (chooses || (kind_ == Kind::pattern && nll)) {
    session_ = std::make_unique<Session>(model, backend, *configured.policy, options);
  }
}

void HitLane::begin(const HitText& text, Session& twin, bool shared) {
  const std::int64_t learned = model_.sinks().count();
  prompt_tokens_ = std::ssize(text.prompt) + learned;
  if (!session_) return;
  session_->begin(std::ssize(text.prompt) + std::ssize(text.inputs));
  if (shared) {
    session_->prefill_from(twin, text.prompt, text.inputs);
  } else if (traits_.recompute_length && learned == 0) {
    // The window over the prompt's end is all that its later predictions come from.
    const auto window = static_cast<std::size_t>(*traits_.recompute_length);
    session_->prefill(text.prompt.last(std::min(window, text.prompt.size())), {}, {});
  } else {
    session_->prefill(text.prompt, {}, {}, text.inputs);
  }
  if (kind_ != Kind::fixed) return;
  sets_.clear();
  note_kept(0);
}

void HitLane::feed(const HitText& text, std::int64_t first, std::int64_t count) {
  first_step_ = first;
  const auto at = static_cast<std::size_t>(first);
  const auto n = static_cast<std::size_t>(count);
  std::vector<double> nll(nll_ ? n : 0);
  if (kind_ == Kind::moving) {
    sets_.clear();
    for (std::size_t i = 0; i < n; ++i) {
      note_kept(static_cast<std::int64_t>(i));
      const std::size_t scored = nll_ ? 1 : 0;
      session_->feed(text.inputs.subspan(at + i, 1), text.targets.subspan(at + i, scored),
                     std::span<double>(nll).subspan(nll_ ? i : 0, scored));
    }
  } else if (session_ && nll_) {
    session_->feed(text.inputs.subspan(at, n), text.targets.subspan(at, n), nll);
  }
  if (session_) add_losses(nll);
}

std::size_t HitLane::set_index(std::int64_t index, std::int64_t layer, std::int64_t kv_head) const {
  const ModelConfig& config = model_.config();
  return static_cast<std::size_t>((index * config.n_layers + layer) * config.n_kv_heads + kv_head);
}

void HitLane::note_kept(std::int64_t index) {
  const ModelConfig& config = model_.config();
  sets_.resize(set_index(index + 1, 0, 0));
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    for (std::int64_t kv_head = 0; kv_head < config.n_kv_heads; ++kv_head) {
      sets_[set_index(index, layer, kv_head)] = session_->kept_positions(layer, kv_head);
    }
  }
}

KeptSet HitLane::kept(std::int64_t step, std::int64_t position, std::int64_t layer,
                      std::int64_t kv_head) const {
  switch (kind_) {
    case Kind::everything:
      return {};
    case Kind::pattern: {
      // Under EvictWhen::before the query's own entry is one of the recent.
      const std::int64_t own = traits_.evict == EvictWhen::before ? 1 : 0;
      const std::int64_t recent =
          traits_.recompute_length ? *traits_.recompute_length - 1 : traits_.kept->recent - own;
      const std::int64_t from = std::max<std::int64_t>(0, position - recent);
      const auto sinks = std::min(sinks_.size(), static_cast<std::size_t>(from));
      return {std::span(sinks_).first(sinks), from};
    }
    case Kind::fixed:
      return {sets_[set_index(0, layer, kv_head)], prompt_tokens_};
    case Kind::moving:
      return {sets_[set_index(step - first_step_, layer, kv_head)], position};
  }
  throw InternalError("unknown kind of lane");
}

}  // namespace kvbench
