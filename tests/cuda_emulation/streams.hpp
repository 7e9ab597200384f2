// The objects behind the runtime's handles, and what the files that implement its calls share.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <memory>

#include "tests/cuda_emulation/machine.hpp"

struct CUstream_st {
  std::shared_ptr<kvbench::emulation::Queue> queue;
};

struct CUevent_st {
  std::chrono::steady_clock::time_point reached;
  std::shared_ptr<kvbench::emulation::Queue> queue;  // where it was recorded last; null: nowhere
  std::size_t place = 0;  // it is reached when so much work of the queue has run
};

struct CUgraph_st {
  kvbench::emulation::Graph graph;
};

struct CUgraphExec_st {
  kvbench::emulation::Graph graph;
};

namespace kvbench::emulation {

inline Machine& machine() {
  return Machine::instance();
}

// Makes an error the one that cudaGetLastError gives; returns it.
cudaError_t remember(cudaError_t error);

// The null stream is the current device's default stream.
Queue& queue_of(cudaStream_t stream);

}  // namespace kvbench::emulation
