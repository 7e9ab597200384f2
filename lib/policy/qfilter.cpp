// qfilter: keeps the keys that point away from a direction per layer and KV head, learned once for
// a model from its queries: the score is minus the product of filter and key (rotated).
#include "core/error.hpp"
#include "io/safetensors.hpp"
#include "policy/registry.hpp"
#include "policy/scorer.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    capacity_option(),
    keep_option(),
    {"filters", OptionKind::path, "", 0, 0, "",
     "path of a safetensors file with one tensor [n_layers, n_kv_heads, head_dim]"},
    timing_option("prefill"),
    interval_option(),
    evict_option(),
    positions_option("original"),
};

class QfilterScorer final : public Scorer {
 public:
  explicit QfilterScorer(const PolicyOptions& options) : path_(options.text("filters")) {
    const SafetensorsFile file = SafetensorsFile::open(path_);
    if (file.tensors().size() != 1) {
      data_error("{}: expected one tensor with the filters, found {}", path_,
                 file.tensors().size());
    }
    const auto& [name, tensor] = file.tensors().front();
    require_float_dtype(tensor, name);
    if (tensor.shape.size() != 3) {
      data_error("{}: tensor {}: expected [n_layers, n_kv_heads, head_dim], found {}", path_, name,
                 to_string(tensor.shape));
    }
    shape_ = tensor.shape;
    filters_.resize(static_cast<std::size_t>(tensor.element_count()));
    to_floats(tensor, 0, tensor.element_count(), filters_.data());
  }
  PolicyNeeds needs() const override { return {}; }

  void score(LayerView& view, std::int64_t kv_head, std::vector<double>& scores) override {
    const Shape expected{view.n_layers, view.n_kv_heads, view.head_dim};
    if (shape_ != expected) {
      data_error("{}: the model needs filters of shape {}, found {}", path_, to_string(expected),
                 to_string(shape_));
    }
    const auto d = static_cast<std::size_t>(view.head_dim);
    const auto head = static_cast<std::size_t>(view.layer * view.n_kv_heads + kv_head);
    const std::span<const float> filter(filters_.data() + head * d, d);
    const auto keys = view.keys(kv_head);
    scores.assign(static_cast<std::size_t>(view.length(kv_head)), 0.0);
    for (std::size_t slot = 0; slot < scores.size(); ++slot) {
      for (std::size_t i = 0; i < d; ++i) {
        scores[slot] -= static_cast<double>(filter[i]) * static_cast<double>(keys[slot * d + i]);
      }
    }
  }

 private:
  std::string path_;
  Shape shape_;                 // [n_layers, n_kv_heads, head_dim]
  std::vector<float> filters_;  // of that shape
};

std::unique_ptr<Scorer> make_scorer(const PolicyOptions& options) {
  return std::make_unique<QfilterScorer>(options);
}

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return make_scored_policy(options, make_scorer(options));
}

}  // namespace

PolicyInfo qfilter_policy() {
  return {"qfilter",
          "qfilter:capacity=1024,filters=FILE",
          "keeps keys by a direction learned per head",
          "Q-Filters (arXiv:2503.02812), section 3",
          kOptions,
          make,
          make_scorer,
          /*make_over=*/nullptr,
          /*needs_file=*/true};
}

}  // namespace kvbench
