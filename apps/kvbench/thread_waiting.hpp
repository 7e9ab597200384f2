// How long the threads of a parallel region wait for each other before they sleep.
#pragma once

namespace kvbench {

// GCC's OpenMP spins for milliseconds by default, which is a loss as soon as other programs want
// the same CPUs: the spinning thread keeps the one it waits for from running. It reads its
// environment before main(), so the program starts itself anew with a shorter spin, unless the
// environment says something about waiting already. Returns if that is so, or cannot be done.
void shorten_thread_waiting(char** argv);

}  // namespace kvbench
