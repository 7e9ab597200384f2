// Loading: checked views from the checkpoint become prepared matrices, one tensor at a time, and
// the mapped pages of each go back to the system, so that weights are never resident twice.
#include "model/model.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "core/error.hpp"
#include "model/family.hpp"
#include "model/model_tensors.hpp"

namespace kvbench {
namespace {

// Rows of the head per block: logits exist for one block of the vocabulary at a time.
constexpr std::int64_t kVocabularyBlock = 4096;

TensorView rows_of(const TensorView& tensor, std::int64_t first, std::int64_t count) {
  TensorView part = tensor;
  part.data += static_cast<std::size_t>(first * tensor.shape[1]) * dtype_size(tensor.dtype);
  part.shape[0] = count;
  return part;
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, Backend& backend, DType compute)
      : checkpoint_(checkpoint), backend_(backend), compute_(compute) {}

  Buffer vector(const TensorView& tensor) const {
    const std::int64_t n = tensor.element_count();
    std::vector<float> values(static_cast<std::size_t>(n));
    to_floats(tensor, 0, n, values.data());
    Buffer buffer = backend_.allocate(values.size() * sizeof(float));
    backend_.copy_in(buffer.as<void>(), values.data(), buffer.bytes());
    return buffer;
  }

  Buffer vector(const std::optional<TensorView>& tensor) const {
    return tensor ? vector(*tensor) : Buffer();
  }

  template <std::size_t n>
  std::unique_ptr<LinearWeight> linear(const std::array<TensorView, n>& parts,
                                       const std::array<std::optional<TensorView>, n>& biases) {
    std::array<TensorView, n> present;
    for (std::size_t i = 0; i < n; ++i) present[i] = biases[i].value_or(TensorView{});
    auto weight = backend_.make_linear(parts, present, compute_);
    for (const TensorView& part : parts) checkpoint_.release(part);
    return weight;
  }

  LayerWeights layer(const LayerTensors& t) {
    LayerWeights w;
    w.input_norm = vector(t.input_norm);
    w.qkv = linear<3>({t.q, t.k, t.v}, {t.q_bias, t.k_bias, t.v_bias});
    w.q_norm = vector(t.q_norm);
    w.k_norm = vector(t.k_norm);
    w.o = linear<1>({t.o}, {t.o_bias});
    w.post_norm = vector(t.post_norm);
    w.gate_up = linear<2>({t.gate, t.up}, {t.gate_bias, t.up_bias});
    w.down = linear<1>({t.down}, {t.down_bias});
    return w;
  }

  std::vector<std::unique_ptr<LinearWeight>> vocabulary(const TensorView& head) {
    std::vector<std::unique_ptr<LinearWeight>> blocks;
    const std::int64_t n_rows = head.shape[0];
    for (std::int64_t first = 0; first < n_rows; first += kVocabularyBlock) {
      const std::int64_t count = std::min(kVocabularyBlock, n_rows - first);
      blocks.push_back(linear<1>({rows_of(head, first, count)}, {std::nullopt}));
    }
    return blocks;
  }

 private:
  const Checkpoint& checkpoint_;
  Backend& backend_;
  DType compute_;
};

}  // namespace

Model Model::load(const std::filesystem::path& directory, Backend& backend, DType compute) {
  Model model;
  model.config_ = read_model_config(directory);
  model.compute_ = compute;
  model.checkpoint_ = Checkpoint::open(directory);
  const FamilySpec& family = find_family(model.config_.model_type);
  const ModelTensors tensors = collect_tensors(model.config_, family, model.checkpoint_);
  model.storage_dtype_ = tensors.embedding.dtype;
  model.content_hash_ = model.checkpoint_.content_hash();

  Loader loader(model.checkpoint_, backend, compute);
  for (const LayerTensors& layer : tensors.layers) {
    model.weights_.layers.push_back(loader.layer(layer));
  }
  model.weights_.final_norm = loader.vector(tensors.final_norm);
  model.weights_.vocabulary = loader.vocabulary(tensors.lm_head);
  model.weights_.embedding = backend.make_table(tensors.embedding);

  model.warnings_ = model.config_.warnings;
  for (const auto* more : {&model.checkpoint_.warnings(), &tensors.warnings}) {
    model.warnings_.insert(model.warnings_.end(), more->begin(), more->end());
  }
  return model;
}

std::int64_t Model::weight_bytes() const {
  std::size_t bytes = 0;
  for (const LayerWeights& layer : weights_.layers) {
    for (const auto* weight : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) {
      bytes += (*weight)->bytes();
    }
  }
  for (const auto& block : weights_.vocabulary) bytes += block->bytes();
  return static_cast<std::int64_t>(bytes);
}

}  // namespace kvbench
