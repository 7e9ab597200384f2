// JSON Schema of a sweep's configuration, made from the settings of the registered tasks.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace kvbench {

nlohmann::ordered_json sweep_schema();

}  // namespace kvbench
