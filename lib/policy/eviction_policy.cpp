// Default of a policy that is never asked.
#include "policy/eviction_policy.hpp"

#include "core/error.hpp"

namespace kvbench {

void EvictionPolicy::select(const SelectionInput& input, KeepList& keep) {
  KVB_CHECK(false, "layer {}: a policy over {} heads was asked to select but cannot", input.layer,
            keep.size());
}

}  // namespace kvbench
