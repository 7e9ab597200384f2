// Rotary embedding as kernels see it: finished rows of cosines and sines.
#pragma once

#include <cstdint>

namespace kvbench {

// Device pointers. A null cosine means no rotation.
struct RopeTable {
  const float* cosine = nullptr;  // [n, rotary_dim / 2]
  const float* sine = nullptr;    // [n, rotary_dim / 2]
  int rotary_dim = 0;             // leading elements of a head that rotate; even
  bool interleaved = false;       // pairs (2i, 2i+1) in place of (i, i + rotary_dim / 2)
};

}  // namespace kvbench
