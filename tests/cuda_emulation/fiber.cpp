// Fiber: stacks with a guard page, and the switch between them.
#include "tests/cuda_emulation/fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "the CUDA emulation switches stacks in x86-64 assembly"
#endif

// void kvb_switch_stack(void** save, void* load): saves the callee-saved registers on this stack
// and its pointer in *save, then continues on the stack that `load` points into.
asm(R"(
  .text
  .globl kvb_switch_stack
  .type kvb_switch_stack, @function
kvb_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size kvb_switch_stack, .-kvb_switch_stack
)");
extern "C" void kvb_switch_stack(void** save, void* load);

namespace kvbench::emulation {
namespace {

constexpr std::size_t kStackBytes = 128 * 1024;
constexpr std::size_t kGuardBytes = 4096;

Fiber* running = nullptr;
void* host_stack_pointer = nullptr;

#if defined(__SANITIZE_ADDRESS__)
const void* host_stack = nullptr;
std::size_t host_stack_bytes = 0;
#endif

}  // namespace

Fiber::Fiber() {
  stack_ = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack_ == MAP_FAILED) throw std::bad_alloc();
  ::mprotect(stack_, kGuardBytes, PROT_NONE);
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
  ::munmap(stack_, kStackBytes);
}

void Fiber::start(Body body, void* argument) {
  body_ = body;
  argument_ = argument;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(static_cast<char*>(stack_) + kGuardBytes,
                                kStackBytes - kGuardBytes);
#endif
  // As if kvb_switch_stack had been called by enter(): six registers, a return address, and one
  // slot that gives enter() the stack alignment of a called function.
  auto* top = reinterpret_cast<void**>(static_cast<char*>(stack_) + kStackBytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&Fiber::enter);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  stack_pointer_ = top;
}

void Fiber::resume() {
  running = this;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_, kStackBytes);
#endif
  kvb_switch_stack(&host_stack_pointer, stack_pointer_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  running = nullptr;
}

void Fiber::yield() {
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, host_stack, host_stack_bytes);
#endif
  kvb_switch_stack(&running->stack_pointer_, host_stack_pointer);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, &host_stack, &host_stack_bytes);
#endif
}

void Fiber::enter() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &host_stack, &host_stack_bytes);
#endif
  running->body_(running->argument_);
}

}  // namespace kvbench::emulation
