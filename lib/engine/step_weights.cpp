// Definitions of step_weights.hpp.
#include "engine/step_weights.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMostBytes = INT64_C(64) << 20;

}  // namespace

void StepWeights::read(const LayerState& state) {
  const AttentionArgs& attention = state.attention;
  KVB_CHECK(attention.log_sum_exp != nullptr && attention.sinks == 0,
            "weights of an attention without denominators, or with sinks");
  n_tokens_ = attention.n_tokens;
  group_ = attention.n_heads / std::ssize(attention.kv);
  lengths_.clear();
  for (const KvHeadView& kv : attention.kv) lengths_.push_back(kv.length);
  row_stride_ = *std::max_element(lengths_.begin(), lengths_.end());
  const auto n = static_cast<std::size_t>(attention.n_heads * n_tokens_ * row_stride_);
  const std::size_t bytes = n * sizeof(float);
  if (weights_.bytes() < bytes) weights_ = backend_.allocate(bytes + bytes / 4);
  backend_.attention_weights({.attention = attention,
                              .log_sum_exp = attention.log_sum_exp,
                              .weights = weights_.as<float>(),
                              .row_stride = row_stride_,
                              .sum_tokens = false});
  if (host_.size() < n) host_.resize(n + n / 4);
  backend_.copy_out(host_.data(), weights_.as<void>(), bytes);
}

std::span<const float> StepWeights::row(std::int64_t head, std::int64_t token) const {
  return {host_.data() + (head * n_tokens_ + token) * row_stride_,
          static_cast<std::size_t>(lengths_[static_cast<std::size_t>(head / group_)])};
}

std::int64_t StepWeights::tokens_per_step(std::int64_t n_heads, std::int64_t length,
                                          std::int64_t wanted) {
  const std::int64_t row_bytes = n_heads * length * static_cast<std::int64_t>(sizeof(float));
  return std::clamp<std::int64_t>(kMostBytes / std::max<std::int64_t>(row_bytes, 1), 1,
                                  std::max<std::int64_t>(wanted, 1));
}

}  // namespace kvbench
