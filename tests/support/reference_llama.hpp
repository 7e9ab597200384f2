// A Llama in double precision, written from its definition and by loops alone: every query sees
// every key up to its own. For tests that need attention weights from outside the library.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "model/model_config.hpp"

namespace kvbench::test {

class ReferenceLlama {
 public:
  using Vector = std::vector<double>;
  using Rows = std::vector<Vector>;

  // Plain rotary settings, no biases, an lm_head of its own or the embedding.
  ReferenceLlama(const std::filesystem::path& directory, bool softmax_off_by_one)
      : config_(read_model_config(directory)), off_by_one_(softmax_off_by_one) {
    const Checkpoint checkpoint = Checkpoint::open(directory);
    for (const std::string& name : checkpoint.names()) {
      const TensorView& view = checkpoint.require(name);
      std::vector<float> values(static_cast<std::size_t>(view.element_count()));
      to_floats(view, 0, view.element_count(), values.data());
      tensors_[name].assign(values.begin(), values.end());
    }
  }

  // Fills `weights` and returns the logits after the last token: [vocab_size].
  Vector run(const std::vector<std::int32_t>& ids) {
    weights.clear();
    Rows stream;
    const Vector& embedding = tensors_.at("model.embed_tokens.weight");
    const auto hidden = static_cast<std::ptrdiff_t>(config_.hidden_size);
    for (const std::int32_t id : ids) {
      stream.emplace_back(embedding.begin() + id * hidden, embedding.begin() + (id + 1) * hidden);
    }
    for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      attend(prefix, stream);
      for (Vector& x : stream) {
        const Vector normed = norm(x, prefix + "post_attention_layernorm.weight");
        Vector gate = times(prefix + "mlp.gate_proj.weight", normed);
        const Vector up = times(prefix + "mlp.up_proj.weight", normed);
        for (std::size_t i = 0; i < gate.size(); ++i) {
          gate[i] *= up[i] / (1.0 + std::exp(-gate[i]));
        }
        add(x, times(prefix + "mlp.down_proj.weight", gate));
      }
    }
    const bool own_head = tensors_.contains("lm_head.weight");
    return times(own_head ? "lm_head.weight" : "model.embed_tokens.weight",
                 norm(stream.back(), "model.norm.weight"));
  }

  std::vector<std::vector<Rows>> weights;  // [layer][query head][query][key up to the query's own]

 private:
  static void add(Vector& x, const Vector& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  Vector norm(const Vector& x, const std::string& name) const {
    double squares = 0.0;
    for (const double value : x) squares += value * value;
    const double factor =
        1.0 / std::sqrt(squares / static_cast<double>(x.size()) + config_.norm_eps);
    Vector normed = tensors_.at(name);
    for (std::size_t i = 0; i < x.size(); ++i) normed[i] *= x[i] * factor;
    return normed;
  }

  // The matrix [out, in] of that name times x.
  Vector times(const std::string& name, const Vector& x) const {
    const Vector& matrix = tensors_.at(name);
    Vector y(matrix.size() / x.size(), 0.0);
    for (std::size_t i = 0; i < matrix.size(); ++i) y[i / x.size()] += matrix[i] * x[i % x.size()];
    return y;
  }

  // Rotates pairs (i, i + head_dim / 2) of every head.
  void rotate(Vector& heads, std::size_t position) const {
    const auto d = static_cast<std::size_t>(config_.head_dim);
    for (std::size_t first = 0; first < heads.size(); first += d) {
      for (std::size_t i = 0; i < d / 2; ++i) {
        const double angle =
            static_cast<double>(position) *
            std::pow(config_.rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(d));
        double& a = heads[first + i];
        double& b = heads[first + i + d / 2];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned;
      }
    }
  }

  void attend(const std::string& prefix, Rows& stream) {
    Rows q, k, v;
    for (std::size_t t = 0; t < stream.size(); ++t) {
      const Vector normed = norm(stream[t], prefix + "input_layernorm.weight");
      q.push_back(times(prefix + "self_attn.q_proj.weight", normed));
      k.push_back(times(prefix + "self_attn.k_proj.weight", normed));
      v.push_back(times(prefix + "self_attn.v_proj.weight", normed));
      rotate(q.back(), t);
      rotate(k.back(), t);
    }
    const auto d = static_cast<std::size_t>(config_.head_dim);
    const auto heads = static_cast<std::size_t>(config_.n_heads);
    const std::size_t group = heads / static_cast<std::size_t>(config_.n_kv_heads);
    weights.emplace_back(heads);
    for (std::size_t t = 0; t < stream.size(); ++t) {
      Vector out(heads * d, 0.0);
      for (std::size_t head = 0; head < heads; ++head) {
        const std::size_t kv = head / group * d;
        Vector row(t + 1, 0.0);
        double sum = off_by_one_ ? 1.0 : 0.0;
        for (std::size_t s = 0; s <= t; ++s) {
          for (std::size_t i = 0; i < d; ++i) row[s] += q[t][head * d + i] * k[s][kv + i];
          row[s] = std::exp(row[s] / std::sqrt(static_cast<double>(d)));
          sum += row[s];
        }
        for (std::size_t s = 0; s <= t; ++s) {
          row[s] /= sum;
          for (std::size_t i = 0; i < d; ++i) out[head * d + i] += row[s] * v[s][kv + i];
        }
        weights.back()[head].push_back(std::move(row));
      }
      add(stream[t], times(prefix + "self_attn.o_proj.weight", out));
    }
  }

  ModelConfig config_;
  bool off_by_one_;
  std::map<std::string, Vector> tensors_;
};

}  // namespace kvbench::test
