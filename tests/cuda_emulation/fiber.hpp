// A call stack of its own that runs until it yields: what a CUDA thread is in the emulation.
// The switch is a dozen instructions (x86-64); ucontext would make a system call each time.
#pragma once

#include <cstddef>
#include <memory>

namespace kvbench::emulation {

class Fiber {
 public:
  using Body = void (*)(void* argument);

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Forgets whatever it was doing; the next resume() calls body(argument), which must never
  // return: it yields for the last time.
  void start(Body body, void* argument);
  // Runs the fiber until it yields.
  void resume();
  // From inside a fiber: back to whoever resumed it.
  static void yield();

 private:
  static void enter();

  void* stack_;
  void* stack_pointer_ = nullptr;
  Body body_ = nullptr;
  void* argument_ = nullptr;
};

}  // namespace kvbench::emulation
