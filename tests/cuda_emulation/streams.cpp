// The CUDA runtime's calls on streams, events and graphs.
#include "tests/cuda_emulation/streams.hpp"

#include <string>
#include <utility>

using namespace kvbench::emulation;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (machine().status() != cudaSuccess) return machine().status();
  *stream = new CUstream_st{machine().make_queue()};
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->queue->capture.reset();
  machine().run(*stream->queue, stream->queue->queued);
  delete stream;
  return machine().status();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return remember(machine().synchronize(queue_of(stream)));
}

cudaError_t cudaDeviceSynchronize() {
  return remember(machine().synchronize());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->queue == nullptr) return cudaSuccess;
  Queue& queue = queue_of(stream);
  if (queue.capture != nullptr) return remember(machine().refuse_in_capture());
  return remember(machine().enqueue(queue, {[other = event->queue, place = event->place] {
                                      machine().run(*other, place);
                                      return std::string();
                                    }}));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return machine().status();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Queue& queue = queue_of(stream);
  if (queue.capture != nullptr) return remember(machine().refuse_in_capture());
  const cudaError_t queued = machine().enqueue(queue, {[event] {
                                                 event->reached = std::chrono::steady_clock::now();
                                                 return std::string();
                                               }});
  if (queued != cudaSuccess) return remember(queued);
  event->queue = stream == nullptr ? nullptr : stream->queue;
  event->place = queue.queued;
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (machine().capturing()) return remember(machine().refuse_in_capture());
  if (event->queue == nullptr) return remember(machine().synchronize());
  machine().run(*event->queue, event->place);
  return machine().status();
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->reached - begin->reached).count();
  return machine().status();
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  // Work that reaches it may still be queued.
  if (event->queue != nullptr) machine().run(*event->queue, event->place);
  delete event;
  return machine().status();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (machine().status() != cudaSuccess) return machine().status();
  if (stream == nullptr || stream->queue->capture != nullptr) {
    return remember(cudaErrorStreamCaptureUnsupported);
  }
  stream->queue->capture = std::make_unique<Graph>();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::unique_ptr<Graph> captured = std::exchange(stream->queue->capture, nullptr);
  *graph = nullptr;
  if (captured == nullptr) return remember(cudaErrorInvalidValue);
  if (captured->broken) return remember(cudaErrorStreamCaptureInvalidated);
  *graph = new CUgraph_st{std::move(*captured)};
  return machine().status();
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  ++machine().graphs_made;
  *executable = new CUgraphExec_st{graph->graph};
  return machine().status();
}

// Nodes may change what they do, not what they are: the same kernels in the same order.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  *info = {};
  const auto& before = executable->graph.nodes;
  const auto& after = graph->graph.nodes;
  bool same = before.size() == after.size();
  for (std::size_t i = 0; same && i < after.size(); ++i) {
    same = before[i].kernel == after[i].kernel;
  }
  if (!same) return remember(cudaErrorGraphExecUpdateFailure);
  ++machine().graphs_updated;
  executable->graph = graph->graph;
  return machine().status();
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  ++machine().graphs_launched;
  for (const Work& work : executable->graph.nodes) {
    const cudaError_t queued = machine().enqueue(queue_of(stream), work);
    if (queued != cudaSuccess) return remember(queued);
  }
  return machine().status();
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
