// JSON in and out of chat templates: the filter tojson, and tools or messages given as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "text/jinja_value.hpp"

namespace kvbench {

// Appends what json.dumps(value, ensure_ascii=False, indent=...) gives; no indent below 0. Returns
// what cannot be written, or that `most_bytes` are too few; null when all is well.
const char* append_json(const JinjaValue& value, int indent, std::size_t most_bytes,
                        std::string& out);

}  // namespace kvbench
