// Defaults: one budget for all layers; a policy that is never asked to select.
#include "policy/eviction_policy.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace kvbench {

void KeepList::clear() {
  for (auto& slots : slots_) slots.clear();
  ties_at_cut = 0;
}

void EvictionPolicy::share_capacity(std::int64_t capacity, std::int64_t,
                                    std::span<std::int64_t> per_layer) const {
  std::fill(per_layer.begin(), per_layer.end(), capacity);
}

void EvictionPolicy::select(LayerView& view, KeepList& keep) {
  KVB_CHECK(false, "layer {}: a policy over {} heads was asked to select but cannot", view.layer,
            keep.size());
}

void EvictionPolicy::select_model(ModelView& view, std::vector<KeepList>& keep) {
  KVB_CHECK(false, "a policy over {} of {} layers was asked to select but cannot", keep.size(),
            view.n_layers);
}

}  // namespace kvbench
