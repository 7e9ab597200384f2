// Loading: checked views from the checkpoint become prepared matrices, one tensor at a time, and
// the mapped pages of each go back to the system, so that weights are never resident twice.
#include "model/model.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

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

// The matrix [in, out] as [out, in].
std::vector<float> transpose(const TensorView& tensor) {
  const auto n_in = static_cast<std::size_t>(tensor.shape[0]);
  const auto n_out = static_cast<std::size_t>(tensor.shape[1]);
  std::vector<float> stored(n_in * n_out);
  to_floats(tensor, 0, tensor.element_count(), stored.data());
  std::vector<float> turned(n_in * n_out);
  for (std::size_t i = 0; i < n_in; ++i) {
    for (std::size_t o = 0; o < n_out; ++o) turned[o * n_in + i] = stored[i * n_out + o];
  }
  return turned;
}

class Loader {
 public:
  Loader(const ModelConfig& config, const Checkpoint& checkpoint, Backend& backend, DType compute)
      : config_(config), checkpoint_(checkpoint), backend_(backend), compute_(compute) {}

  NormWeight norm(const NormTensors& tensors) const {
    return {norm_vector(tensors.weight), vector(tensors.bias, 0.0f)};
  }

  std::unique_ptr<LinearWeight> linear(const MatrixTensors& matrix) const {
    std::unique_ptr<LinearWeight> weight;
    if (matrix.transposed) {
      const TensorView& stored = matrix.blocks.front();
      const std::vector<float> turned = transpose(stored);
      const TensorView view{reinterpret_cast<const std::byte*>(turned.data()),
                            DType::f32,
                            {stored.shape[1], stored.shape[0]}};
      weight = backend_.make_linear({&view, 1}, matrix.biases, compute_);
    } else {
      weight = backend_.make_linear(matrix.blocks, matrix.biases, compute_);
    }
    for (const TensorView& block : matrix.blocks) checkpoint_.release(block);
    return weight;
  }

  LayerWeights layer(const LayerTensors& t) const {
    LayerWeights w;
    w.input_norm = norm(t.input_norm);
    w.qkv = linear(t.qkv);
    w.q_norm = norm_vector(t.q_norm);
    w.k_norm = norm_vector(t.k_norm);
    w.o = linear(t.o);
    w.attention_output_norm = norm(t.attention_output_norm);
    w.mlp_norm = norm(t.mlp_norm);
    w.mlp_output_norm = norm(t.mlp_output_norm);
    if (t.gate_up.present()) w.mlp = {linear(t.gate_up), linear(t.down)};
    if (t.router.present()) w.router = linear(t.router);
    for (const ExpertTensors& expert : t.experts) {
      w.experts.push_back({linear(expert.gate_up), linear(expert.down)});
    }
    return w;
  }

  std::vector<std::unique_ptr<LinearWeight>> vocabulary(const TensorView& head) const {
    std::vector<std::unique_ptr<LinearWeight>> blocks;
    const std::int64_t n_rows = head.shape[0];
    for (std::int64_t first = 0; first < n_rows; first += kVocabularyBlock) {
      const std::int64_t count = std::min(kVocabularyBlock, n_rows - first);
      blocks.push_back(linear({.blocks = {rows_of(head, first, count)}}));
    }
    return blocks;
  }

 private:
  // Values of the tensor, each with `added` on top; empty for no tensor.
  Buffer vector(const std::optional<TensorView>& tensor, float added) const {
    if (!tensor) return {};
    const std::int64_t n = tensor->element_count();
    std::vector<float> values(static_cast<std::size_t>(n));
    to_floats(*tensor, 0, n, values.data());
    for (float& value : values) value += added;
    Buffer buffer = backend_.allocate(values.size() * sizeof(float));
    backend_.copy_in(buffer.as<void>(), values.data(), buffer.bytes());
    return buffer;
  }

  Buffer norm_vector(const std::optional<TensorView>& tensor) const {
    return vector(tensor, config_.norm_weights_less_one ? 1.0f : 0.0f);
  }

  const ModelConfig& config_;
  const Checkpoint& checkpoint_;
  Backend& backend_;
  DType compute_;
};

// Refuses a model that needs what the backend lacks.
void check_features(const ModelConfig& config, const Backend& backend) {
  const bool unrotated = config.positions != PositionKind::rotary ||
                         std::ranges::find(config.unrotated, true) != config.unrotated.end();
  const std::array needs{
      std::pair{Feature::layer_norm, config.norm == NormKind::layer},
      std::pair{Feature::unnormed_input, !config.input_norms},
      std::pair{Feature::output_norm, config.output_norms},
      std::pair{Feature::plain_mlp, !config.gated_mlp},
      std::pair{Feature::experts, config.n_experts > 0},
      std::pair{Feature::position_table, config.positions == PositionKind::table},
      std::pair{Feature::embedding_scale, config.embedding_scale != 1.0},
      std::pair{Feature::clip, config.qkv_clip > 0.0},
      std::pair{Feature::unrotated_layer, unrotated},
      std::pair{Feature::alibi, config.positions == PositionKind::alibi},
      std::pair{Feature::attention_logit_cap, config.attention_logit_cap > 0.0},
      std::pair{Feature::logit_cap, config.logit_cap > 0.0},
  };
  for (const auto& [feature, needed] : needs) {
    if (!needed || backend.supports(feature)) continue;
    device_error("backend {} cannot compute {}, which this {} model needs; use the cpu backend",
                 backend.name(), feature_name(feature), config.model_type);
  }
}

}  // namespace

Model Model::open(const std::filesystem::path& directory, const SinkSource& sinks) {
  Model model;
  model.config_ = read_model_config(directory);
  model.checkpoint_ = Checkpoint::open(directory);
  const FamilySpec& family = find_family(model.config_.model_type);
  // First: a slip in the tensor's name would otherwise read as a tensor that nothing uses.
  model.sinks_ = SinkRows(sinks, model.checkpoint_, model.config_.hidden_size);
  model.tensors_ = collect_tensors(model.config_, family, model.checkpoint_,
                                   sinks.file.empty() ? sinks.tensor : "");
  model.storage_dtype_ = model.tensors_.embedding.dtype;
  model.content_hash_ = model.checkpoint_.content_hash();
  model.warnings_ = model.config_.warnings;
  for (const std::span<const std::string> more :
       {std::span(model.checkpoint_.warnings()),
        std::span<const std::string>(model.tensors_.warnings)}) {
    model.warnings_.insert(model.warnings_.end(), more.begin(), more.end());
  }
  return model;
}

void Model::load_weights(Backend& backend, DType compute) {
  KVB_CHECK(!has_weights(), "weights are loaded once");
  check_features(config_, backend);
  compute_ = compute;
  const Loader loader(config_, checkpoint_, backend, compute);
  Weights weights;
  // A layer goes where its middle stands among all matrices.
  auto total = static_cast<double>(tensors_.lm_head.element_count());
  for (const LayerTensors& layer : tensors_.layers) {
    total += static_cast<double>(matrix_elements(layer));
  }
  double before = 0.0;
  for (const LayerTensors& layer : tensors_.layers) {
    const auto elements = static_cast<double>(matrix_elements(layer));
    backend.place((before + elements / 2) / total);
    before += elements;
    weights.layers.push_back(loader.layer(layer));
  }
  backend.place(1.0);
  weights.final_norm = loader.norm(tensors_.final_norm);
  weights.vocabulary = loader.vocabulary(tensors_.lm_head);
  backend.place(0.0);
  weights.embedding = backend.make_table(tensors_.embedding);
  if (sinks_.count() > 0) weights.sinks = backend.make_table(sinks_.view());
  if (tensors_.positions) weights.positions = backend.make_table(*tensors_.positions);
  weights_ = std::move(weights);
}

Model Model::load(const std::filesystem::path& directory, Backend& backend, DType compute,
                  const SinkSource& sinks) {
  Model model = open(directory, sinks);
  model.load_weights(backend, compute);
  return model;
}

std::vector<float> Model::output_columns(std::int64_t layer, std::int64_t head) const {
  const MatrixTensors& projection = tensors_.layers[static_cast<std::size_t>(layer)].o;
  KVB_CHECK(projection.blocks.size() == 1, "output projection in {} parts",
            projection.blocks.size());
  const TensorView& stored = projection.blocks.front();
  const std::int64_t d = config_.head_dim;
  const std::int64_t hidden = config_.hidden_size;
  std::vector<float> columns(static_cast<std::size_t>(hidden * d));
  if (projection.transposed) {
    std::vector<float> rows(columns.size());  // [head_dim, hidden]
    to_floats(stored, head * d * hidden, d * hidden, rows.data());
    for (std::int64_t i = 0; i < hidden * d; ++i) {
      columns[static_cast<std::size_t>(i)] = rows[static_cast<std::size_t>(i % d * hidden + i / d)];
    }
  } else {
    for (std::int64_t row = 0; row < hidden; ++row) {
      to_floats(stored, (row * config_.n_heads + head) * d, d, columns.data() + row * d);
    }
  }
  checkpoint_.release(stored);
  return columns;
}

std::int64_t Model::weight_bytes() const {
  std::size_t bytes = 0;
  const auto add = [&](const std::unique_ptr<LinearWeight>& weight) {
    if (weight != nullptr) bytes += weight->bytes();
  };
  for (const LayerWeights& layer : weights_.layers) {
    for (const auto* weight :
         {&layer.qkv, &layer.o, &layer.mlp.gate_up, &layer.mlp.down, &layer.router}) {
      add(*weight);
    }
    for (const MlpWeights& expert : layer.experts) {
      add(expert.gate_up);
      add(expert.down);
    }
  }
  for (const auto& block : weights_.vocabulary) add(block);
  return static_cast<std::int64_t>(bytes);
}

}  // namespace kvbench
