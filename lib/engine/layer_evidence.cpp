// LayerEvidence: gathering (collect) and showing (show and the LayerView functions).
#include "engine/layer_evidence.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "engine/stored_rows.hpp"

namespace kvbench {
namespace {

// Grow-only: no allocation once the largest size was seen.
void ensure(Backend& backend, Buffer& buffer, std::size_t bytes) {
  if (buffer.bytes() < bytes) buffer = backend.allocate(bytes + bytes / 4);
}

}  // namespace

LayerEvidence::LayerEvidence(const Model& model, Backend& backend, KvCache& cache,
                             const Sequence& sequence, const PolicyNeeds& needs)
    : model_(model),
      backend_(backend),
      cache_(cache),
      sequence_(sequence),
      needs_(needs),
      recent_(static_cast<std::size_t>(model.config().n_layers)),
      mass_(static_cast<std::size_t>(model.config().n_layers * model.config().n_kv_heads)),
      moments_(static_cast<std::size_t>(model.config().n_layers)),
      replay_(backend, model.config(), needs.replay),
      keys_(static_cast<std::size_t>(model.config().n_kv_heads)),
      values_(static_cast<std::size_t>(model.config().n_kv_heads)),
      output_heads_(static_cast<std::size_t>(model.config().n_layers * model.config().n_heads)),
      output_norms_(static_cast<std::size_t>(model.config().n_heads)) {
  const ModelConfig& config = model.config();
  n_layers = config.n_layers;
  n_heads = config.n_heads;
  n_kv_heads = config.n_kv_heads;
  head_dim = config.head_dim;
  group = config.group_size();
}

void LayerEvidence::reset() {
  for (RecentQueries& recent : recent_) recent.begin = recent.count = 0;
  for (auto& mass : mass_) mass.clear();
  for (QueryMoments& moments : moments_) moments = {};
  attention_ = nullptr;
}

void LayerEvidence::collect(const LayerState& state) {
  if (needs_.window > 0) remember_queries(state);
  if (needs_.mass) add_mass(state);
  if (needs_.query_moments) add_moments(state);
}

void LayerEvidence::remember_queries(const LayerState& state) {
  RecentQueries& recent = recent_[static_cast<std::size_t>(state.layer)];
  const std::int64_t width = n_heads * head_dim;
  const auto row_bytes = static_cast<std::size_t>(width) * sizeof(float);
  ensure(backend_, recent.q, 2 * static_cast<std::size_t>(needs_.window) * row_bytes);
  const std::int64_t n = std::min(state.attention.n_tokens, needs_.window);
  const std::int64_t kept = std::min(recent.count, needs_.window - n);
  float* rows = recent.q.as<float>();
  std::int64_t first = recent.begin + recent.count - kept;  // oldest row that stays
  if (first + kept + n > 2 * needs_.window) {
    const RowMove to_front{rows, 0, first, kept};
    backend_.move_rows({&to_front, 1}, row_bytes);
    first = 0;
  }
  const std::int64_t skipped = state.attention.n_tokens - n;
  for (std::int64_t i = 0; i < n; ++i) {
    backend_.copy_rows(rows + (first + kept + i) * width,
                       state.attention.q + (skipped + i) * state.attention.q_stride, row_bytes);
  }
  recent.begin = first;
  recent.count = kept + n;
}

std::int64_t LayerEvidence::longest_head() const {
  std::int64_t longest = 0;
  for (const KvHeadView& kv : attention_->kv) longest = std::max(longest, kv.length);
  return longest;
}

void LayerEvidence::add_mass(const LayerState& state) {
  attention_ = &state.attention;
  row_stride_ = longest_head();
  const auto n = static_cast<std::size_t>(n_heads * row_stride_);
  ensure(backend_, weights_, n * sizeof(float));
  backend_.attention_weights({.attention = state.attention,
                              .log_sum_exp = state.attention.log_sum_exp,
                              .weights = weights_.as<float>(),
                              .row_stride = row_stride_,
                              .sum_tokens = true});
  host_weights_.resize(n);
  backend_.copy_out(host_weights_.data(), weights_.as<void>(), n * sizeof(float));
  for (std::int64_t head = 0; head < n_heads; ++head) {
    const std::int64_t kv_head = head / group;
    auto& mass = mass_[static_cast<std::size_t>(state.layer * n_kv_heads + kv_head)];
    const std::int64_t entries = state.attention.kv[static_cast<std::size_t>(kv_head)].length;
    mass.resize(static_cast<std::size_t>(entries), 0.0);
    const float* row = host_weights_.data() + head * row_stride_;
    for (std::size_t slot = 0; slot < mass.size(); ++slot) {
      mass[slot] += static_cast<double>(row[slot]);
    }
  }
}

void LayerEvidence::add_moments(const LayerState& state) {
  const AttentionArgs& attention = state.attention;
  std::int64_t first = 0;
  while (first < attention.n_tokens && attention.q_positions[first] < needs_.moments_skip) ++first;
  const std::int64_t n = attention.n_tokens - first;
  if (n == 0) return;
  host_queries_.resize(static_cast<std::size_t>((n - 1) * attention.q_stride + n_heads * head_dim));
  backend_.copy_out(host_queries_.data(), attention.q + first * attention.q_stride,
                    host_queries_.size() * sizeof(float));
  moments_[static_cast<std::size_t>(state.layer)].add(host_queries_.data(), attention.q_stride, n,
                                                      n_heads, head_dim);
}

void LayerEvidence::show(const LayerState& state, std::int64_t seen, std::int64_t budget) {
  layer = state.layer;
  tokens_seen = seen;
  capacity = budget;
  attention_ = &state.attention;
  scale = static_cast<double>(attention_->scale);
  window_computed_ = false;
  moments_finished_ = false;
  for (auto& rows : keys_) rows.clear();
  for (auto& rows : values_) rows.clear();
  for (auto& norms : output_norms_) norms.clear();
}

void LayerEvidence::keep(std::int64_t of_layer, std::int64_t kv_head,
                         std::span<const std::int32_t> slots) {
  if (!needs_.mass) return;
  auto& mass = mass_[static_cast<std::size_t>(of_layer * n_kv_heads + kv_head)];
  for (std::size_t i = 0; i < slots.size(); ++i) {
    mass[i] = mass[static_cast<std::size_t>(slots[i])];
  }
  mass.resize(slots.size());
}

std::span<const std::int32_t> LayerEvidence::positions(std::int64_t kv_head) const {
  return cache_.positions(layer, kv_head);
}

std::span<const double> LayerEvidence::inv_freq() const {
  const Rotary* rotary = sequence_.rotary(layer);
  if (rotary == nullptr) return {};
  return rotary->frequencies().inv_freq;
}

double LayerEvidence::rope_attention_factor() const {
  const Rotary* rotary = sequence_.rotary(layer);
  return rotary == nullptr ? 1.0 : rotary->frequencies().attention_factor;
}

bool LayerEvidence::rope_interleaved() const {
  const Rotary* rotary = sequence_.rotary(layer);
  return rotary != nullptr && rotary->shape().interleaved;
}

std::int64_t LayerEvidence::window_rows() {
  KVB_CHECK(needs_.window > 0, "the policy did not ask for a window");
  return recent_[static_cast<std::size_t>(layer)].count;
}

// Attention of the remembered queries over what is stored now: their own softmax, whatever was
// evicted since they were new. Their entries are the last slots.
void LayerEvidence::compute_window() {
  const RecentQueries& recent = recent_[static_cast<std::size_t>(layer)];
  const std::int64_t rows = recent.count;
  AttentionArgs window = *attention_;
  const bool by_slot = window.distance_by_slot;
  window_positions_.resize(static_cast<std::size_t>(rows));
  std::iota(window_positions_.begin(), window_positions_.end(),
            static_cast<std::int32_t>(tokens_seen - rows));
  window_rope_positions_ = window_positions_;
  if (by_slot) {
    std::iota(window_rope_positions_.begin(), window_rope_positions_.end(),
              static_cast<std::int32_t>(window.kv.front().length - rows));
  }
  const Rotary* rotary = sequence_.rotary(layer);
  if (rotary != nullptr) rotary->fill(window_rope_positions_, window_rope_);

  const auto n = static_cast<std::size_t>(rows * n_heads);
  ensure(backend_, window_out_, n * static_cast<std::size_t>(head_dim) * sizeof(float));
  ensure(backend_, window_log_sum_exp_, n * sizeof(float));
  window.q = recent.q.as<float>() + recent.begin * n_heads * head_dim;
  window.q_stride = n_heads * head_dim;
  window.out = window_out_.as<void>();
  window.out_dtype = DType::f32;
  window.n_tokens = rows;
  window.q_positions = window_positions_.data();
  if (rotary != nullptr) window.q_rope = window_rope_.view();
  window.log_sum_exp = window_log_sum_exp_.as<float>();
  backend_.attention(window);

  row_stride_ = longest_head();
  const std::size_t total = n * static_cast<std::size_t>(row_stride_);
  ensure(backend_, weights_, total * sizeof(float));
  backend_.attention_weights({.attention = window,
                              .log_sum_exp = window_log_sum_exp_.as<float>(),
                              .weights = weights_.as<float>(),
                              .row_stride = row_stride_,
                              .sum_tokens = false});
  host_weights_.resize(total);
  backend_.copy_out(host_weights_.data(), weights_.as<void>(), total * sizeof(float));
  host_log_sum_exp_.resize(n);
  backend_.copy_out(host_log_sum_exp_.data(), window_log_sum_exp_.as<void>(), n * sizeof(float));
  window_computed_ = true;
}

std::span<const float> LayerEvidence::window_row(std::int64_t head, std::int64_t row) {
  const std::int64_t rows = window_rows();
  if (!window_computed_) compute_window();
  return {host_weights_.data() + (head * rows + row) * row_stride_,
          static_cast<std::size_t>(length(head / group))};
}

double LayerEvidence::window_log_sum_exp(std::int64_t head, std::int64_t row) {
  KVB_CHECK(row < window_rows(), "row {} of a window of {}", row, window_rows());
  if (!window_computed_) compute_window();
  return static_cast<double>(host_log_sum_exp_[static_cast<std::size_t>(row * n_heads + head)]);
}

std::span<const double> LayerEvidence::mass(std::int64_t kv_head) {
  KVB_CHECK(needs_.mass, "the policy did not ask for attention mass");
  return mass_[static_cast<std::size_t>(layer * n_kv_heads + kv_head)];
}

void LayerEvidence::finish_moments() {
  KVB_CHECK(needs_.query_moments, "the policy did not ask for query moments");
  if (moments_finished_) return;
  const QueryMoments& moments = moments_[static_cast<std::size_t>(layer)];
  KVB_CHECK(moments.count() > 0, "no query beyond the first {}", needs_.moments_skip);
  moments.finish(mean_, covariance_);
  moments_finished_ = true;
}

std::span<const double> LayerEvidence::query_mean(std::int64_t head) {
  finish_moments();
  return {mean_.data() + head * head_dim, static_cast<std::size_t>(head_dim)};
}

std::span<const double> LayerEvidence::query_covariance(std::int64_t head) {
  finish_moments();
  return {covariance_.data() + head * head_dim * head_dim,
          static_cast<std::size_t>(head_dim * head_dim)};
}

std::span<const double> LayerEvidence::replayed(std::int64_t kv_head) {
  return replay_.scores(layer, kv_head).first(static_cast<std::size_t>(length(kv_head)));
}

std::span<const float> LayerEvidence::keys(std::int64_t kv_head) {
  auto& rows = keys_[static_cast<std::size_t>(kv_head)];
  if (rows.empty()) {
    const KvHeadView& kv = attention_->kv[static_cast<std::size_t>(kv_head)];
    read_rows(backend_, kv.quantised_keys, kv.keys, kv.length, head_dim, attention_->kv_dtype,
              rows);
    if (attention_->slot_rope.cosine != nullptr) {
      rotate_by_slot(*sequence_.rotary(layer), head_dim, rows);
    }
  }
  return rows;
}

std::span<const float> LayerEvidence::values(std::int64_t kv_head) {
  auto& rows = values_[static_cast<std::size_t>(kv_head)];
  if (rows.empty()) {
    const KvHeadView& kv = attention_->kv[static_cast<std::size_t>(kv_head)];
    read_rows(backend_, kv.quantised_values, kv.values, kv.length, head_dim, attention_->kv_dtype,
              rows);
  }
  return rows;
}

const LinearWeight& LayerEvidence::output_head(std::int64_t head) {
  auto& weight = output_heads_[static_cast<std::size_t>(layer * n_heads + head)];
  if (!weight) {
    const std::vector<float> columns = model_.output_columns(layer, head);
    const TensorView part{reinterpret_cast<const std::byte*>(columns.data()), DType::f32,
                          Shape{model_.config().hidden_size, head_dim}};
    weight = backend_.make_linear({&part, 1}, {}, DType::f32);
  }
  return *weight;
}

std::span<const double> LayerEvidence::output_norms(std::int64_t head) {
  KVB_CHECK(needs_.output_norms, "the policy did not ask for output norms");
  constexpr std::int64_t kRows = 256;  // projected at a time: bounds memory
  auto& norms = output_norms_[static_cast<std::size_t>(head)];
  if (!norms.empty()) return norms;
  const auto rows = values(head / group);
  const std::int64_t hidden = model_.config().hidden_size;
  ensure(backend_, projected_in_, static_cast<std::size_t>(kRows * head_dim) * sizeof(float));
  ensure(backend_, projected_, static_cast<std::size_t>(kRows * hidden) * sizeof(float));
  std::vector<float> host(static_cast<std::size_t>(kRows * hidden));
  const std::int64_t entries = length(head / group);
  for (std::int64_t first = 0; first < entries; first += kRows) {
    const std::int64_t n = std::min(kRows, entries - first);
    backend_.copy_in(projected_in_.as<void>(), rows.data() + first * head_dim,
                     static_cast<std::size_t>(n * head_dim) * sizeof(float));
    backend_.linear(output_head(head), {.x = projected_in_.as<void>(),
                                        .y = projected_.as<float>(),
                                        .n_rows = n,
                                        .accumulate = false});
    backend_.copy_out(host.data(), projected_.as<void>(),
                      static_cast<std::size_t>(n * hidden) * sizeof(float));
    for (std::int64_t row = 0; row < n; ++row) {
      double norm = 0.0;
      for (std::int64_t i = 0; i < hidden; ++i) {
        norm += std::abs(static_cast<double>(host[static_cast<std::size_t>(row * hidden + i)]));
      }
      norms.push_back(norm);
    }
  }
  return norms;
}

}  // namespace kvbench
