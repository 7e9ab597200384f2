// The attention operations on the GPU: which kernel, over how many blocks, with which host arrays.
#pragma once

#include "backend/backend.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/quantised_storage.hpp"
#include "backend/cuda/staging.hpp"
#include "kernels/attention.hpp"

namespace kvbench {

// Up to this many tokens, each reads the keys for itself, split over blocks; more share tiles.
constexpr std::int64_t kMaxDecodeTokens = 16;

class CudaAttention {
 public:
  CudaAttention(Staging& staging, cudaStream_t stream, int n_multiprocessors)
      : staging_(staging),
        stream_(stream),
        n_multiprocessors_(n_multiprocessors),
        widening_(staging, stream) {}

  void run(const AttentionArgs& args);
  void weights(const AttentionWeightsArgs& args);

 private:
  AttentionParams stage(const AttentionArgs& args, bool coded);

  Staging& staging_;
  cudaStream_t stream_;
  int n_multiprocessors_;
  DeviceWorkspace partials_;  // of the splits of one call
  KvWidening widening_;
};

}  // namespace kvbench
