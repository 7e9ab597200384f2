// StepCapture over stream capture.
#include "backend/cuda/step_capture.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "kernels/common/cuda_error.hpp"

namespace kvbench {
namespace {

std::vector<StepCapture*>& captures_of_thread() {
  thread_local std::vector<StepCapture*> captures;
  return captures;
}

class GraphOwner {
 public:
  explicit GraphOwner(cudaGraph_t graph) : graph_(graph) {}
  ~GraphOwner() { cudaGraphDestroy(graph_); }
  GraphOwner(const GraphOwner&) = delete;
  GraphOwner& operator=(const GraphOwner&) = delete;

 private:
  cudaGraph_t graph_;
};

// False when the graph has other nodes than the executable.
bool update(cudaGraphExec_t executable, cudaGraph_t graph) {
  cudaGraphExecUpdateResultInfo info{};
  const cudaError_t status = cudaGraphExecUpdate(executable, graph, &info);
  if (status == cudaErrorGraphExecUpdateFailure) {
    cudaGetLastError();  // an answer, not a fault: forget it
    return false;
  }
  check_cuda(status, "cudaGraphExecUpdate");
  return true;
}

}  // namespace

StepCapture::StepCapture(cudaStream_t stream) : stream_(stream) {
  check_cuda(cudaGetDevice(&device_), "cudaGetDevice");
  captures_of_thread().push_back(this);
}

StepCapture::~StepCapture() {
  std::erase(captures_of_thread(), this);
  if (recording_) {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  cudaStreamSynchronize(stream_);
  for (cudaGraphExec_t part : parts_) cudaGraphExecDestroy(part);
}

void StepCapture::begin_step() {
  flush();  // of a step that ended in an error
  in_step_ = true;
  part_ = 0;
}

void StepCapture::end_step() {
  flush();
  in_step_ = false;
}

void StepCapture::record() {
  if (!in_step_ || recording_) return;
  // Relaxed: the first use of a kernel loads it, which the other modes may refuse.
  check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed),
             "cudaStreamBeginCapture");
  recording_ = true;
}

void StepCapture::flush() {
  if (!recording_) return;
  recording_ = false;
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  const GraphOwner owner(graph);
  int current = 0;  // another device's operation may have asked
  check_cuda(cudaGetDevice(&current), "cudaGetDevice");
  check_cuda(cudaSetDevice(device_), "cudaSetDevice");
  launch(graph);
  check_cuda(cudaSetDevice(current), "cudaSetDevice");
}

void StepCapture::launch(cudaGraph_t graph) {
  if (part_ == parts_.size()) {
    parts_.push_back(nullptr);
    check_cuda(cudaGraphInstantiate(&parts_[part_], graph, 0), "cudaGraphInstantiate");
  } else if (!update(parts_[part_], graph)) {
    cudaGraphExec_t changed = nullptr;
    check_cuda(cudaGraphInstantiate(&changed, graph, 0), "cudaGraphInstantiate");
    // The earlier one may still run.
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    check_cuda(cudaGraphExecDestroy(parts_[part_]), "cudaGraphExecDestroy");
    parts_[part_] = changed;
  }
  check_cuda(cudaGraphLaunch(parts_[part_], stream_), "cudaGraphLaunch");
  ++part_;
}

void flush_captures() {
  for (StepCapture* capture : captures_of_thread()) capture->flush();
}

}  // namespace kvbench
