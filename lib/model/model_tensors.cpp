// Tensor names to checked views, the rules for tied embeddings, and the search for unused tensors.
#include "model/model_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "io/checkpoint.hpp"
#include "model/family.hpp"

namespace kvbench {
namespace {

std::string with_layer(std::string_view pattern, std::int64_t layer) {
  std::string name(pattern);
  const std::size_t at = name.find("{}");
  if (at != std::string::npos) name.replace(at, 2, std::to_string(layer));
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

// Takes tensors out of a checkpoint, checks each, and remembers which were wanted.
class Collector {
 public:
  explicit Collector(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // nullptr when the checkpoint does not hold it.
  const TensorView* find(const std::string& name, const Shape& expected) {
    const TensorView* tensor = checkpoint_.find(name);
    if (tensor == nullptr) return nullptr;
    used_.insert(name);
    const DType dtype = tensor->dtype;
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) {
      data_error("{}: dtype {} of {} is not supported; expected F32, F16 or BF16", where(),
                 dtype_name(dtype), name);
    }
    if (tensor->shape != expected) {
      data_error("{}: tensor {} is {}, expected {} from config.json", where(), name,
                 to_string(tensor->shape), to_string(expected));
    }
    return tensor;
  }

  TensorView require(const std::string& name, const Shape& expected) {
    const TensorView* tensor = find(name, expected);
    if (tensor == nullptr) {
      data_error("{}: tensor {} is missing, expected {} from config.json", where(), name,
                 to_string(expected));
    }
    return *tensor;
  }

  std::optional<TensorView> require_if(bool wanted, const std::string& name,
                                       const Shape& expected) {
    if (!wanted) return std::nullopt;
    return require(name, expected);
  }

  // A checkpoint with tensors that nothing reads was made for a model that computes more.
  void refuse_unused(std::span<const std::string_view> harmless_endings) const {
    constexpr std::size_t kShown = 8;
    std::size_t n_unused = 0;
    std::string shown;
    for (const std::string& name : checkpoint_.names()) {
      const bool harmless = std::ranges::any_of(
          harmless_endings, [&](std::string_view ending) { return name.ends_with(ending); });
      if (harmless || used_.contains(name)) continue;
      if (++n_unused <= kShown)
        shown += fmt::format("{}{}", shown.empty() ? "" : ", ", printable(name));
    }
    if (n_unused == 0) return;
    data_error("{}: {} tensor(s) that the model of config.json does not use: {}{}", where(),
               n_unused, shown, n_unused > kShown ? ", ..." : "");
  }

  std::string where() const { return checkpoint_.directory().string(); }

 private:
  const Checkpoint& checkpoint_;
  std::set<std::string> used_;
};

LayerTensors collect_layer(const ModelConfig& config, const TensorPatterns& patterns,
                           std::int64_t layer, Collector& collector) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t ffn = config.ffn_size;
  const std::int64_t q_size = config.n_heads * config.head_dim;
  const std::int64_t kv_size = config.n_kv_heads * config.head_dim;
  const auto weight = [&](std::string_view pattern, const Shape& shape) {
    return collector.require(with_layer(pattern, layer), shape);
  };
  const auto bias = [&](bool wanted, std::string_view pattern, const Shape& shape) {
    return collector.require_if(wanted, bias_name(with_layer(pattern, layer)), shape);
  };
  const auto head_norm = [&](std::string_view pattern) {
    return collector.require_if(config.qk_norm, with_layer(pattern, layer), {config.head_dim});
  };
  return {.input_norm = weight(patterns.input_norm, {hidden}),
          .q = weight(patterns.q, {q_size, hidden}),
          .k = weight(patterns.k, {kv_size, hidden}),
          .v = weight(patterns.v, {kv_size, hidden}),
          .o = weight(patterns.o, {hidden, q_size}),
          .q_bias = bias(config.qkv_bias, patterns.q, {q_size}),
          .k_bias = bias(config.qkv_bias, patterns.k, {kv_size}),
          .v_bias = bias(config.qkv_bias, patterns.v, {kv_size}),
          .o_bias = bias(config.o_bias, patterns.o, {hidden}),
          .q_norm = head_norm(patterns.q_norm),
          .k_norm = head_norm(patterns.k_norm),
          .post_norm = weight(patterns.post_norm, {hidden}),
          .gate = weight(patterns.gate, {ffn, hidden}),
          .up = weight(patterns.up, {ffn, hidden}),
          .down = weight(patterns.down, {hidden, ffn}),
          .gate_bias = bias(config.mlp_bias, patterns.gate, {ffn}),
          .up_bias = bias(config.mlp_bias, patterns.up, {ffn}),
          .down_bias = bias(config.mlp_bias, patterns.down, {hidden})};
}

// Untied: the file's matrix, which must be there. Tied: the embedding, unless the file holds a
// different matrix under lm_head's name, which then is used.
void collect_lm_head(const ModelConfig& config, std::string_view name, Collector& collector,
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
                             const Checkpoint& checkpoint) {
  Collector collector(checkpoint);
  const TensorPatterns& patterns = family.tensors;
  ModelTensors tensors;
  tensors.embedding =
      collector.require(std::string(patterns.embedding), {config.vocab_size, config.hidden_size});
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    tensors.layers.push_back(collect_layer(config, patterns, layer, collector));
  }
  tensors.final_norm = collector.require(std::string(patterns.final_norm), {config.hidden_size});
  collect_lm_head(config, patterns.lm_head, collector, tensors);
  collector.refuse_unused(family.harmless_endings);
  return tensors;
}

std::int64_t parameter_count(const ModelTensors& tensors) {
  std::int64_t total = tensors.embedding.element_count() + tensors.final_norm.element_count();
  if (!tensors.lm_head_is_embedding) total += tensors.lm_head.element_count();
  for (const LayerTensors& layer : tensors.layers) {
    for (const TensorView* weight : {&layer.input_norm, &layer.q, &layer.k, &layer.v, &layer.o,
                                     &layer.post_norm, &layer.gate, &layer.up, &layer.down}) {
      total += weight->element_count();
    }
    for (const auto* optional :
         {&layer.q_bias, &layer.k_bias, &layer.v_bias, &layer.o_bias, &layer.q_norm, &layer.k_norm,
          &layer.gate_bias, &layer.up_bias, &layer.down_bias}) {
      if (optional->has_value()) total += (*optional)->element_count();
    }
  }
  return total;
}

}  // namespace kvbench
