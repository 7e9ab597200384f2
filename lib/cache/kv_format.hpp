// How keys and values are stored, as written after --kv: "f32", "bf16", "same" (as the matrix
// products), or "kivi:bits=2,group=32,residual=128,dtype=bf16".
#pragma once

#include <optional>
#include <string_view>

#include "cache/kivi_options.hpp"
#include "core/dtype.hpp"

namespace kvbench {

struct KvFormat {
  DType dtype = DType::f32;  // with kivi, of the rows not quantised
  std::optional<KiviOptions> kivi;
};

// ConfigError names the key, what was expected and the nearest valid key.
KvFormat parse_kv_format(std::string_view text, DType compute);

}  // namespace kvbench
