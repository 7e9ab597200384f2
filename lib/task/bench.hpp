// Speed and memory of policies: prefill, time to first token, decoding at a depth. What is run is
// random tokens, since speed does not depend on what they say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "task/run_settings.hpp"
#include "task/task.hpp"

namespace kvbench {

struct BenchRequest : RunSettings {
  std::vector<std::string> policies;
  std::vector<std::int64_t> depths{512, 2048};  // prompt tokens, after which decoding is timed
  std::int64_t steps = 32;                      // decoded tokens per repetition
  std::int64_t repeats = 3;                     // counted; one more before them warms up
  std::int64_t streams = 1;                     // sequences that are decoded side by side
};

// See Task. Repetitions of the policies are interleaved, so that what disturbs the machine for a
// while disturbs all of them.
void check_bench(const BenchRequest& request);
std::vector<RunRecord> run_bench(const BenchRequest& request, TaskContext& context);

}  // namespace kvbench
