// The emulated machine: its devices' memory, their streams of work, and the fault. One for the
// process.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_emulation/block.hpp"
#include "tests/cuda_emulation/device_memory.hpp"

namespace kvbench::emulation {

// One piece of work. It returns what went wrong, or an empty string.
struct Work {
  std::function<std::string()> run;
  const void* kernel = nullptr;  // of a launch
};

// Work recorded from a stream, to be queued as often as wanted.
struct Graph {
  std::vector<Work> nodes;
  bool broken = false;  // a call came that a capture does not allow
};

// What a stream has to do, in order.
struct Queue {
  int device = 0;
  std::deque<Work> waiting;
  std::size_t queued = 0;          // since the start
  std::size_t run = 0;             // since the start
  std::unique_ptr<Graph> capture;  // where new work goes instead, if a capture is under way
};

class Machine {
 public:
  static Machine& instance();

  DeviceMemory memory;
  int device_count = 1;
  int current_device = 0;
  std::size_t graphs_made = 0;
  std::size_t graphs_updated = 0;
  std::size_t graphs_launched = 0;

  // The fault's error, once there is one; nothing else succeeds after it, as in CUDA.
  cudaError_t status() const { return fault_.empty() ? cudaSuccess : cudaErrorLaunchFailure; }
  const std::string& fault() const { return fault_; }
  void reset();

  std::shared_ptr<Queue> make_queue();
  // The current device's, of calls that name no stream.
  Queue& default_queue();

  // A stream of another device than the current one takes no work.
  cudaError_t enqueue(Queue& queue, Work work);
  // Runs a stream's work until `count` pieces of it have run since the start.
  void run(Queue& queue, std::size_t count);
  // Runs all work of a stream, or of all of them.
  cudaError_t synchronize(Queue& queue);
  cudaError_t synchronize();
  std::size_t operations_run() const { return operations_run_; }

  // Whether a capture is under way. Calls that no capture allows end it.
  bool capturing() const;
  cudaError_t refuse_in_capture();

  // Why the launch is refused, or cudaSuccess.
  cudaError_t check_launch(const LaunchRecord& launch) const;
  void allow_shared_bytes(const void* kernel, std::size_t bytes) { allowed_[kernel] = bytes; }

 private:
  std::vector<std::weak_ptr<Queue>> queues_;
  std::map<int, std::shared_ptr<Queue>> default_queues_;  // by device
  std::string fault_;
  std::size_t operations_run_ = 0;
  std::map<const void*, std::size_t> allowed_;  // dynamic shared memory, where asked for
};

}  // namespace kvbench::emulation
