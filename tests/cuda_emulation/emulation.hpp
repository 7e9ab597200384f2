// What tests ask of the CUDA emulation: thread orders, the device's properties, its last fault.
//
// How it works. The include path puts include/ before the real toolkit's headers (none is needed),
// so kernels/*.cu and lib/backend/cuda/*.cpp compile unchanged with the host compiler. A kernel's
// block runs as fibers of the calling thread (block.hpp); a stream is a queue that runs when it is
// waited for (machine.cpp), a graph a recorded part of one; matrix products are plain loops
// (cublas.cpp).
//
// What it detects, as a DeviceError with place and thread: barriers and warp collectives that not
// all threads reach, launches outside the hardware's limits, copies outside an allocation, kernel
// arguments that point to host memory or to another device's, calls that a capture does not allow.
// Through NaN: memory that was never written. Through AddressSanitizer: accesses outside device and
// shared arrays, host code that touches device memory. Through thread orders: races between
// barriers.
//
// What it cannot: memory ordering between blocks, bank conflicts, anything about speed.
#pragma once

#include <cstddef>
#include <string>

#include "tests/cuda_emulation/block.hpp"

namespace kvbench::emulation {

// Device memory that can be had on each device; allocations beyond it fail as on a full GPU.
void set_memory_limit(std::size_t bytes);
// How many devices answer; 1 from the start.
void set_device_count(int count);
// Text of the fault that made the device unusable, or empty.
std::string last_fault();
// Forgets the fault and all queued work. Allocations stay.
void reset_device();
// Device memory allocated now.
std::size_t allocated_bytes();
std::size_t allocated_bytes(int device);
// Allocations of device and pinned memory since the start.
std::size_t allocations();
// Kernels and copies run since the start.
std::size_t operations_run();

struct GraphCounts {
  std::size_t made, updated, launched;  // since the start
};
GraphCounts graph_counts();

}  // namespace kvbench::emulation
