// Turns the CUDA runtime's answers, and launches outside a kernel's contract, into kvbench errors.
// The messages are made in cuda_error.cpp by the host compiler: nvcc 13 cannot compile fmt 9.
#pragma once

#include <cuda_runtime_api.h>

namespace kvbench {

// Throws DeviceError when a runtime call did not succeed; `what` names the call or the kernel.
// The message also names the kernel queued last: a kernel's fault shows at a later call.
void check_cuda(cudaError_t status, const char* what);

// Remembers the kernel queued last, for messages. `kernel` must live on.
void note_launch(const char* kernel);

// Throws InternalError when a caller broke a kernel's contract; `contract` says which in words.
void check_contract(bool holds, const char* kernel, const char* contract);

}  // namespace kvbench
