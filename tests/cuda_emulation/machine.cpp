// Streams run when somebody waits for them, each for itself: work of another stream has run only if
// an event ordered it so.
#include "tests/cuda_emulation/machine.hpp"

#include <algorithm>

namespace kvbench::emulation {
namespace {

constexpr std::size_t kSharedBytes = 48 * 1024;
constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxGridYZ = 65535;

}  // namespace

Machine& Machine::instance() {
  static Machine machine;
  return machine;
}

void Machine::reset() {
  for (const auto& known : queues_) {
    const auto queue = known.lock();
    if (queue == nullptr) continue;
    queue->run += queue->waiting.size();
    queue->waiting.clear();
    queue->capture.reset();
  }
  fault_.clear();
}

std::shared_ptr<Queue> Machine::make_queue() {
  std::erase_if(queues_, [](const auto& known) { return known.expired(); });
  auto queue = std::make_shared<Queue>();
  queue->device = current_device;
  queues_.push_back(queue);
  return queue;
}

Queue& Machine::default_queue() {
  auto& queue = default_queues_[current_device];
  if (queue == nullptr) queue = make_queue();
  return *queue;
}

cudaError_t Machine::enqueue(Queue& queue, Work work) {
  if (status() != cudaSuccess) return status();
  if (queue.device != current_device) return cudaErrorInvalidResourceHandle;
  if (queue.capture != nullptr) {
    queue.capture->nodes.push_back(std::move(work));
    return cudaSuccess;
  }
  queue.waiting.push_back(std::move(work));
  ++queue.queued;
  return cudaSuccess;
}

void Machine::run(Queue& queue, std::size_t count) {
  const DeviceMemory::Access access(memory);
  while (queue.run < count && !queue.waiting.empty() && fault_.empty()) {
    const Work work = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    ++queue.run;
    ++operations_run_;
    const std::string fault = work.run();
    if (fault_.empty()) fault_ = fault;
  }
}

cudaError_t Machine::synchronize(Queue& queue) {
  if (capturing()) return refuse_in_capture();
  run(queue, queue.queued);
  return status();
}

cudaError_t Machine::synchronize() {
  if (capturing()) return refuse_in_capture();
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if (const auto queue = queues_[i].lock()) run(*queue, queue->queued);
  }
  return status();
}

bool Machine::capturing() const {
  return std::any_of(queues_.begin(), queues_.end(), [](const auto& known) {
    const auto queue = known.lock();
    return queue != nullptr && queue->capture != nullptr;
  });
}

cudaError_t Machine::refuse_in_capture() {
  for (const auto& known : queues_) {
    const auto queue = known.lock();
    if (queue != nullptr && queue->capture != nullptr) queue->capture->broken = true;
  }
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t Machine::check_launch(const LaunchRecord& launch) const {
  const dim3& grid = launch.grid;
  const dim3& block = launch.block;
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxThreads || grid.x == 0 || grid.x > 0x7FFFFFFFu || grid.y == 0 ||
      grid.y > kMaxGridYZ || grid.z == 0 || grid.z > kMaxGridYZ) {
    return cudaErrorInvalidConfiguration;
  }
  const auto allowed = allowed_.find(launch.kernel);
  if (launch.shared_bytes > (allowed == allowed_.end() ? kSharedBytes : allowed->second)) {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

}  // namespace kvbench::emulation
