// Names of the kinds of arithmetic that a backend may lack, as messages say them.
#include "backend/backend.hpp"

namespace kvbench {

std::string_view feature_name(Feature feature) {
  switch (feature) {
    case Feature::layer_norm:
      return "LayerNorm";
    case Feature::unnormed_input:
      return "blocks without a norm on their input";
    case Feature::output_norm:
      return "norms on a block's output";
    case Feature::plain_mlp:
      return "MLPs without a gate";
    case Feature::experts:
      return "mixtures of experts";
    case Feature::position_table:
      return "learned positions";
    case Feature::embedding_scale:
      return "scaled embeddings";
    case Feature::clip:
      return "clipped queries, keys and values";
    case Feature::unrotated_layer:
      return "layers without rotary positions";
    case Feature::alibi:
      return "ALiBi";
    case Feature::attention_logit_cap:
      return "soft-capped attention";
    case Feature::softmax_off_by_one:
      return "softmax off by one";
    case Feature::logit_cap:
      return "soft-capped logits";
    case Feature::quantised_kv:
      return "attention over quantised keys and values";
  }
  throw InternalError("a feature without a name");
}

}  // namespace kvbench
