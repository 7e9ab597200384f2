// Work of a decoding step, recorded as it is queued and launched as CUDA graphs: the device goes
// from kernel to kernel without waiting for the host. Each step is recorded anew, since lengths and
// addresses change; an earlier step's executable graph is updated with it, which costs less than
// the launches would.
//
// A capture allows no waiting, no allocation and no copy of pageable memory. Whatever does these
// launches what was recorded so far, and recording goes on behind it: a step becomes as many graphs
// as it has such places, usually one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace kvbench {

class StepCapture {
 public:
  // The stream is one of the current device, and must outlive it.
  explicit StepCapture(cudaStream_t stream);
  ~StepCapture();
  StepCapture(const StepCapture&) = delete;
  StepCapture& operator=(const StepCapture&) = delete;

  // What is queued after record() calls between the two is recorded.
  void begin_step();
  void end_step();
  // Call before work is queued. Outside of steps nothing happens.
  void record();
  // Launches what was recorded, if anything.
  void flush();

 private:
  void launch(cudaGraph_t graph);

  cudaStream_t stream_;
  int device_ = 0;
  bool in_step_ = false;
  bool recording_ = false;
  std::size_t part_ = 0;                // of the running step
  std::vector<cudaGraphExec_t> parts_;  // executable graphs of earlier steps, part by part
};

// Flushes all captures of this thread, on whatever device: while one records, no call that waits or
// allocates is allowed on any.
void flush_captures();

}  // namespace kvbench
