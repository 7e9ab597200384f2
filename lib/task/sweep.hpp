// Running a sweep: group after group in one process, a record for every cell, finished or failed.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "report/record_store.hpp"
#include "task/sweep_plan.hpp"

namespace kvbench {

struct SweepRun {
  bool rerun = false;      // finished cells too
  bool fail_fast = false;  // the first failure ends the run
  bool quiet = false;
  // Told of each line of progress; may be empty.
  std::function<void(std::string_view line)> say;
  // Called around every write of a record, so that a signal can wait for its end; may be empty.
  std::function<void(bool begins)> guard;
};

struct SweepOutcome {
  std::size_t finished = 0;  // now
  std::size_t found = 0;     // finished before
  std::size_t failed = 0;
  int exit_code = 0;  // of the first failure
};

// Runs the groups. What concerns a whole group, such as a damaged checkpoint, is an error record of
// each of its cells; the others still run. Records are in the store when this returns, and each is
// there before the next cell begins.
SweepOutcome run_groups(const std::vector<SweepGroup>& groups, RecordStore& store,
                        const SweepRun& options);

// One short run of every group, nothing kept: whether models, texts and policies go together.
// Throws the first failure.
void dry_run_groups(const std::vector<SweepGroup>& groups, const SweepRun& options);

}  // namespace kvbench
