// Tensor names to checked views, the rules for tied embeddings, and the search for unused tensors.
#include "model/model_tensors.hpp"

#include <cstring>
#include <span>
#include <string_view>

#include "core/error.hpp"
#include "model/family.hpp"
#include "model/tensor_collector.hpp"

namespace kvbench {
namespace {

// Fills the first "{}" with `index`.
std::string with_index(std::string_view pattern, std::int64_t index) {
  std::string name(pattern);
  const std::size_t at = name.find("{}");
  if (at != std::string::npos) name.replace(at, 2, std::to_string(index));
  return name;
}

std::string bias_name(const std::string& weight_name) {
  constexpr std::string_view kWeight = "weight";
  KVB_CHECK(weight_name.ends_with(kWeight), "tensor name {}", weight_name);
  return weight_name.substr(0, weight_name.size() - kWeight.size()) + "bias";
}

bool same_bytes(const TensorView& a, const TensorView& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  return a.data == b.data || std::memcmp(a.data, b.data, a.byte_count()) == 0;
}

// Rows [first, first + count) of a tensor of one or more dims.
TensorView rows_of(const TensorView& tensor, std::int64_t first, std::int64_t count) {
  TensorView rows = tensor;
  const std::size_t row_bytes = tensor.byte_count() / static_cast<std::size_t>(tensor.shape[0]);
  rows.data += static_cast<std::size_t>(first) * row_bytes;
  rows.shape[0] = count;
  return rows;
}

// One of the matrices in a tensor that holds several.
TensorView matrix_of(const TensorView& tensor, std::int64_t index) {
  TensorView matrix = rows_of(tensor, index, 1);
  matrix.shape.erase(matrix.shape.begin());
  return matrix;
}

// Fused rows that are ordered group by group, as views in the order q, k, v.
std::vector<TensorView> ungroup(const TensorView& fused, const ModelConfig& config) {
  const std::int64_t d = config.head_dim;
  const std::int64_t group = config.group_size();
  std::vector<TensorView> blocks;
  for (std::int64_t kv = 0; kv < config.n_kv_heads; ++kv) {
    blocks.push_back(rows_of(fused, kv * (group + 2) * d, group * d));
  }
  for (const std::int64_t part : {group, group + 1}) {
    for (std::int64_t kv = 0; kv < config.n_kv_heads; ++kv) {
      blocks.push_back(rows_of(fused, (kv * (group + 2) + part) * d, d));
    }
  }
  return blocks;
}

// The tensors of one layer.
class LayerCollector {
 public:
  LayerCollector(const ModelConfig& config, const FamilySpec& family, std::int64_t layer,
                 TensorCollector& collector)
      : config_(config), family_(family), layer_(layer), collector_(collector) {}

  LayerTensors collect() {
    const TensorPatterns& names = family_.tensors;
    const bool own_mlp_norm = config_.input_norms && !config_.shared_input_norm;
    LayerTensors t;
    t.input_norm = norm(config_.input_norms, names.input_norm);
    t.attention_output_norm = norm(config_.output_norms, names.attention_output_norm);
    t.mlp_norm = norm(own_mlp_norm, names.mlp_norm);
    t.mlp_output_norm = norm(config_.output_norms, names.mlp_output_norm);
    t.qkv = query_key_value();
    t.o = matrix(names.o, config_.hidden_size, q_size(), config_.o_bias);
    t.q_norm = head_norm(names.q_norm, config_.n_heads);
    t.k_norm = head_norm(names.k_norm, config_.n_kv_heads);
    if (config_.n_experts > 0) {
      t.router = matrix(names.router, config_.n_experts, config_.hidden_size, false);
      t.experts = experts();
    } else {
      t.gate_up = gate_up();
      t.down = matrix(names.down, config_.hidden_size, config_.ffn_size, config_.mlp_bias);
    }
    return t;
  }

 private:
  std::int64_t q_size() const { return config_.n_heads * config_.head_dim; }
  std::int64_t kv_size() const { return config_.n_kv_heads * config_.head_dim; }

  NormTensors norm(bool wanted, std::string_view pattern) {
    if (!wanted) return {};
    const std::string name = with_index(pattern, layer_);
    const Shape shape{config_.hidden_size};
    return {collector_.require(name, shape),
            collector_.require_if(config_.norm_bias, bias_name(name), shape)};
  }

  std::optional<TensorView> head_norm(std::string_view pattern, std::int64_t n_heads) {
    if (config_.qk_norm == QkNorm::none) return std::nullopt;
    Shape shape{config_.head_dim};
    if (config_.qk_norm == QkNorm::each_head) shape = {n_heads, config_.head_dim};
    if (config_.qk_norm == QkNorm::whole) shape = {n_heads * config_.head_dim};
    return collector_.require(with_index(pattern, layer_), shape);
  }

  // Adds the tensor as one block of rows.
  void add(std::string_view pattern, std::int64_t rows, std::int64_t columns, bool bias,
           MatrixTensors& matrix) {
    const std::string name = with_index(pattern, layer_);
    const Shape shape = family_.transposed ? Shape{columns, rows} : Shape{rows, columns};
    matrix.transposed = family_.transposed;
    matrix.blocks.push_back(collector_.require(name, shape));
    if (bias) matrix.biases.push_back(collector_.require(bias_name(name), {rows}));
  }

  MatrixTensors matrix(std::string_view pattern, std::int64_t rows, std::int64_t columns,
                       bool bias) {
    MatrixTensors matrix;
    add(pattern, rows, columns, bias, matrix);
    return matrix;
  }

  MatrixTensors query_key_value() {
    const TensorPatterns& names = family_.tensors;
    const std::int64_t hidden = config_.hidden_size;
    MatrixTensors qkv;
    if (names.qkv.empty()) {
      add(names.q, q_size(), hidden, config_.qkv_bias, qkv);
      add(names.k, kv_size(), hidden, config_.qkv_bias, qkv);
      add(names.v, kv_size(), hidden, config_.qkv_bias, qkv);
      return qkv;
    }
    add(names.qkv, q_size() + 2 * kv_size(), hidden, config_.qkv_bias, qkv);
    if (family_.qkv_layout == QkvLayout::grouped) {
      qkv.blocks = ungroup(qkv.blocks.front(), config_);
      if (config_.qkv_bias) qkv.biases = ungroup(qkv.biases.front(), config_);
    }
    return qkv;
  }

  MatrixTensors gate_up() {
    const TensorPatterns& names = family_.tensors;
    const std::int64_t ffn = config_.ffn_size;
    if (!names.gate_up.empty()) {
      return matrix(names.gate_up, 2 * ffn, config_.hidden_size, config_.mlp_bias);
    }
    MatrixTensors gate_up;
    if (config_.gated_mlp) add(names.gate, ffn, config_.hidden_size, config_.mlp_bias, gate_up);
    add(names.up, ffn, config_.hidden_size, config_.mlp_bias, gate_up);
    return gate_up;
  }

  std::vector<ExpertTensors> experts() {
    const TensorPatterns& names = family_.tensors;
    const std::int64_t n = config_.n_experts;
    const std::int64_t hidden = config_.hidden_size;
    const std::int64_t ffn = config_.ffn_size;
    std::vector<ExpertTensors> experts(static_cast<std::size_t>(n));
    const TensorView* gate_up =
        collector_.find(with_index(names.experts_gate_up, layer_), {n, 2 * ffn, hidden});
    if (gate_up != nullptr) {
      const TensorView down =
          collector_.require(with_index(names.experts_down, layer_), {n, hidden, ffn});
      for (std::int64_t i = 0; i < n; ++i) {
        ExpertTensors& expert = experts[static_cast<std::size_t>(i)];
        expert.gate_up.blocks = {matrix_of(*gate_up, i)};
        expert.down.blocks = {matrix_of(down, i)};
      }
      return experts;
    }
    const auto part = [&](std::string_view pattern, std::int64_t expert, const Shape& shape) {
      return collector_.require(with_index(with_index(pattern, layer_), expert), shape);
    };
    for (std::int64_t i = 0; i < n; ++i) {
      ExpertTensors& expert = experts[static_cast<std::size_t>(i)];
      expert.gate_up.blocks = {part(names.expert_gate, i, {ffn, hidden}),
                               part(names.expert_up, i, {ffn, hidden})};
      expert.down.blocks = {part(names.expert_down, i, {hidden, ffn})};
    }
    return experts;
  }

  const ModelConfig& config_;
  const FamilySpec& family_;
  std::int64_t layer_;
  TensorCollector& collector_;
};

// Untied: the file's matrix, which must be there. Tied: the embedding, unless the file holds a
// different matrix under lm_head's name, which then is used.
void collect_lm_head(const ModelConfig& config, std::string_view name, TensorCollector& collector,
                     ModelTensors& tensors) {
  const std::string lm_head(name);
  const Shape shape{config.vocab_size, config.hidden_size};
  const TensorView* own = collector.find(lm_head, shape);
  if (own == nullptr && !config.tie_word_embeddings) {
    data_error("{}: tensor {} is missing, and tie_word_embeddings of config.json is false",
               collector.where(), lm_head);
  }
  const bool equal = own != nullptr && same_bytes(*own, tensors.embedding);
  tensors.lm_head_is_embedding = own == nullptr || (config.tie_word_embeddings && equal);
  tensors.lm_head = tensors.lm_head_is_embedding ? tensors.embedding : *own;
  if (config.tie_word_embeddings && !tensors.lm_head_is_embedding) {
    tensors.warnings.push_back(
        fmt::format("{}: tie_word_embeddings of config.json is true, but the checkpoint holds "
                    "another {}; the checkpoint's {} is used",
                    collector.where(), lm_head, lm_head));
  }
}

}  // namespace

ModelTensors collect_tensors(const ModelConfig& config, const FamilySpec& family,
                             const Checkpoint& checkpoint, const std::string& sink_tensor) {
  TensorCollector collector(checkpoint, family.renamings);
  collector.mark_used(sink_tensor);
  const TensorPatterns& patterns = family.tensors;
  ModelTensors tensors;
  tensors.embedding =
      collector.require(std::string(patterns.embedding), {config.vocab_size, config.hidden_size});
  tensors.positions =
      collector.require_if(config.positions == PositionKind::table, std::string(patterns.positions),
                           {config.max_positions, config.hidden_size});
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    tensors.layers.push_back(LayerCollector(config, family, layer, collector).collect());
  }
  const std::string final_norm(patterns.final_norm);
  tensors.final_norm.weight = collector.require(final_norm, {config.hidden_size});
  tensors.final_norm.bias =
      collector.require_if(config.norm_bias, bias_name(final_norm), {config.hidden_size});
  collect_lm_head(config, patterns.lm_head, collector, tensors);
  collector.refuse_unused(family);
  return tensors;
}

std::int64_t matrix_elements(const LayerTensors& layer) {
  std::int64_t total = 0;
  const auto add = [&](const MatrixTensors& matrix) {
    for (const TensorView& block : matrix.blocks) total += block.element_count();
  };
  for (const MatrixTensors* matrix :
       {&layer.qkv, &layer.o, &layer.gate_up, &layer.down, &layer.router}) {
    add(*matrix);
  }
  for (const ExpertTensors& expert : layer.experts) {
    add(expert.gate_up);
    add(expert.down);
  }
  return total;
}

std::int64_t parameter_count(const ModelTensors& tensors) {
  std::int64_t total = 0;
  const auto add = [&](const std::optional<TensorView>& tensor) {
    if (tensor) total += tensor->element_count();
  };
  const auto add_norm = [&](const NormTensors& norm) {
    add(norm.weight);
    add(norm.bias);
  };
  const auto add_matrix = [&](const MatrixTensors& matrix) {
    for (const TensorView& block : matrix.blocks) total += block.element_count();
    for (const TensorView& bias : matrix.biases) total += bias.element_count();
  };
  add(tensors.embedding);
  add(tensors.positions);
  add_norm(tensors.final_norm);
  if (!tensors.lm_head_is_embedding) add(tensors.lm_head);
  for (const LayerTensors& layer : tensors.layers) {
    for (const NormTensors* norm : {&layer.input_norm, &layer.attention_output_norm,
                                    &layer.mlp_norm, &layer.mlp_output_norm}) {
      add_norm(*norm);
    }
    for (const MatrixTensors* matrix :
         {&layer.qkv, &layer.o, &layer.gate_up, &layer.down, &layer.router}) {
      add_matrix(*matrix);
    }
    add(layer.q_norm);
    add(layer.k_norm);
    for (const ExpertTensors& expert : layer.experts) {
      add_matrix(expert.gate_up);
      add_matrix(expert.down);
    }
  }
  return total;
}

}  // namespace kvbench
