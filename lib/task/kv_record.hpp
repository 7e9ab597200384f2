// What records say about quantised storage, whatever the task.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cache/kivi_options.hpp"

namespace kvbench {

inline constexpr const char* kNothingQuantised =
    "--kv kivi quantised nothing: the numbers are those of its full-precision rows";

// {"kind": "kivi", "bits": 2, ...}, and when rows are quantised.
nlohmann::ordered_json kivi_json(const KiviOptions& options);

}  // namespace kvbench
