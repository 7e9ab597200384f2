// Session: the loop around the forward pass. Policies whose kept set follows from positions alone
// run many tokens at once: each query's attention pattern is what eviction token by token would
// have left it, so the results are the same (a test holds the two paths against each other).
#include "engine/session.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace kvbench {
namespace {

KvCacheShape cache_shape(const ModelConfig& config, DType dtype) {
  return {config.n_layers, config.n_kv_heads, config.head_dim, dtype};
}

}  // namespace

Session::Session(const Model& model, Backend& backend, EvictionPolicy& policy,
                 const SessionOptions& options)
    : config_(model.config()),
      policy_(policy),
      traits_(policy.traits()),
      options_(options),
      cache_(backend, cache_shape(model.config(), options.kv_dtype)),
      transformer_(model, backend, options.chunk),
      positions_(static_cast<std::size_t>(config_.n_kv_heads)),
      keep_(static_cast<std::size_t>(config_.n_kv_heads)) {}

std::int64_t Session::tokens_per_step() const {
  return traits_.kept || traits_.recompute_length ? options_.chunk : 1;
}

void Session::begin(std::int64_t text_tokens) {
  cache_.clear();
  cache_.reset_statistics();
  policy_.reset(options_.seed);
  tokens_fed_ = 0;
  held_tokens_ = 0;
  recompute_dropped_ = 0;
  tail_.clear();
  transformer_.set_text_length(std::max<std::int64_t>(text_tokens, 1));
  // A streaming cache gets a quarter more rows than it can hold, so that live rows slide back to
  // the front once in many steps and not at each.
  const std::int64_t step = std::min(tokens_per_step(), std::max<std::int64_t>(text_tokens, 1));
  const std::int64_t most = std::min(text_tokens, traits_.capacity + step);
  const bool evicts = most < text_tokens;
  cache_.reserve(evicts ? most + traits_.capacity / 4 : most);
}

void Session::feed(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                   std::span<double> nll) {
  KVB_CHECK(targets.size() <= ids.size() && nll.size() == targets.size(),
            "{} ids, {} targets, {} results", ids.size(), targets.size(), nll.size());
  std::size_t done = 0;
  while (done < ids.size()) {
    std::size_t n = std::min(static_cast<std::size_t>(tokens_per_step()), ids.size() - done);
    if (traits_.recompute_length) {
      const std::int64_t dense = *traits_.recompute_length - tokens_fed_;
      n = dense > 0 ? std::min(n, static_cast<std::size_t>(dense)) : 1;
      if (dense > 0) {
        step(ids.subspan(done, n));
        tail_.insert(tail_.end(), ids.begin() + static_cast<std::ptrdiff_t>(done),
                     ids.begin() + static_cast<std::ptrdiff_t>(done + n));
      } else {
        recompute_step(ids[done]);
      }
    } else {
      step(ids.subspan(done, n));
    }
    tokens_fed_ += static_cast<std::int64_t>(n);
    if (done < targets.size()) {
      const std::size_t scored = std::min(n, targets.size() - done);
      transformer_.nll(held_tokens_ - static_cast<std::int64_t>(n), targets.subspan(done, scored),
                       nll.subspan(done, scored));
    }
    done += n;
  }
}

void Session::step(std::span<const std::int32_t> ids) {
  ForwardStep forward;
  forward.ids = ids;
  forward.first_position = tokens_fed_;
  forward.positions = traits_.positions;
  // Room made before the forward: the step's own token is one of the `capacity` that it sees.
  const bool before = traits_.evict == EvictWhen::before && !traits_.recompute_length;
  const std::int64_t own = before && traits_.capacity < kUnlimited ? 1 : 0;
  if (own > 0) {
    for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
      evict_layer(layer, traits_.capacity - own);
    }
  }
  if (traits_.kept) {
    forward.pattern = *traits_.kept;
    forward.pattern.recent -= own;
    forward.sink_slot_limit = traits_.capacity - own;
  }
  transformer_.forward(forward, cache_, this);
  held_tokens_ = static_cast<std::int64_t>(ids.size());
}

// The window slides by one token, and all of it is computed again at positions 0 .. length-1.
void Session::recompute_step(std::int32_t id) {
  tail_.erase(tail_.begin());
  tail_.push_back(id);
  cache_.clear();
  recompute_dropped_ += config_.n_layers * config_.n_kv_heads;
  const std::span<const std::int32_t> window(tail_);
  const auto chunk = static_cast<std::size_t>(options_.chunk);
  for (std::size_t first = 0; first < window.size(); first += chunk) {
    const std::size_t n = std::min(chunk, window.size() - first);
    ForwardStep forward;
    forward.ids = window.subspan(first, n);
    forward.first_position = static_cast<std::int64_t>(first);
    transformer_.forward(forward, cache_, nullptr);
    held_tokens_ = static_cast<std::int64_t>(n);
  }
}

void Session::after_attention(const LayerState& state, KvCache&) {
  if (!traits_.recompute_length) evict_layer(state.layer, traits_.capacity);
}

void Session::evict_layer(std::int64_t layer, std::int64_t capacity) {
  bool over = false;
  for (std::int64_t kv_head = 0; kv_head < config_.n_kv_heads; ++kv_head) {
    const std::int64_t excess = cache_.length(layer, kv_head) - capacity;
    if (excess <= 0) continue;
    over = true;
    if (traits_.kept) cache_.evict_run(layer, kv_head, traits_.kept->sinks, excess);
  }
  if (!over || traits_.kept) return;
  for (std::int64_t kv_head = 0; kv_head < config_.n_kv_heads; ++kv_head) {
    positions_[static_cast<std::size_t>(kv_head)] = cache_.positions(layer, kv_head);
    keep_[static_cast<std::size_t>(kv_head)].clear();
  }
  policy_.select(
      {.layer = layer, .step = tokens_fed_, .capacity = capacity, .positions = positions_}, keep_);
  for (std::int64_t kv_head = 0; kv_head < config_.n_kv_heads; ++kv_head) {
    cache_.keep(layer, kv_head, keep_[static_cast<std::size_t>(kv_head)]);
  }
}

std::vector<std::int32_t> Session::kept_positions(std::int64_t layer, std::int64_t kv_head) const {
  const auto stored = cache_.positions(layer, kv_head);
  std::vector<std::int32_t> kept(stored.begin(), stored.end());
  // A re-computed window stands at positions 0 .. length-1 of its own.
  const auto shift =
      traits_.recompute_length ? tokens_fed_ - static_cast<std::int64_t>(kept.size()) : 0;
  for (std::int32_t& position : kept) position += static_cast<std::int32_t>(shift);
  return kept;
}

void Session::last_logits(std::span<float> logits) {
  KVB_CHECK(held_tokens_ > 0, "no token was fed");
  transformer_.logits(held_tokens_ - 1, logits);
}

}  // namespace kvbench
