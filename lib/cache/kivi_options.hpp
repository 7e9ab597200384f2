// The settings of KIVI storage (jy-yuan/KIVI): keys per channel in groups of `group` tokens, values
// per token in groups of `group` channels, the newest tokens in full precision.
#pragma once

#include <cstdint>

namespace kvbench {

struct KiviOptions {
  std::int64_t bits = 2;        // of a code: 2 or 4
  std::int64_t group = 32;      // numbers that share scale and zero
  std::int64_t residual = 128;  // tokens; a multiple of the group
};

}  // namespace kvbench
