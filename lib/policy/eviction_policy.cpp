// Default of a policy that is never asked.
#include "policy/eviction_policy.hpp"

#include "core/error.hpp"

namespace kvbench {

void EvictionPolicy::select(LayerView& view, KeepList& keep) {
  KVB_CHECK(false, "layer {}: a policy over {} heads was asked to select but cannot", view.layer,
            keep.size());
}

}  // namespace kvbench
