// KV heads that are partly quantised: making codes, telling kernels that read codes where they are,
// and f32 copies, for one call, for kernels that read rows.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/staging.hpp"
#include "kernels/coded_rows.hpp"

namespace kvbench {

bool partly_quantised(std::span<const KvHeadView> kv);

// What a kernel needs to know of a side's quantised rows; the ends of cut groups are staged.
CodedRows stage_coded(Staging::Block& block, const QuantisedRows& rows);
// Staged bytes of both sides of all heads.
std::size_t staged_coded_bytes(std::span<const KvHeadView> kv);

void queue_quantise(std::span<const QuantiseCall> calls, Staging& staging, cudaStream_t stream);

class KvWidening {
 public:
  KvWidening(Staging& staging, cudaStream_t stream) : staging_(staging), stream_(stream) {}

  // The same call over f32 rows, which are on their way; valid until the next one.
  AttentionArgs over_rows(const AttentionArgs& args);

 private:
  Staging& staging_;
  cudaStream_t stream_;
  DeviceWorkspace rows_;           // of all heads: keys, values
  std::vector<KvHeadView> views_;  // of rows_
};

}  // namespace kvbench
