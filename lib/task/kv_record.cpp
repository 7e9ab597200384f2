// The kv object of a configuration.
#include "task/kv_record.hpp"

#include <nlohmann/json.hpp>

namespace kvbench {

nlohmann::ordered_json kivi_json(const KiviOptions& options) {
  return {{"kind", "kivi"},
          {"bits", options.bits},
          {"group", options.group},
          {"residual", options.residual},
          {"schedule", "after_prompt_then_token_by_token"}};
}

}  // namespace kvbench
