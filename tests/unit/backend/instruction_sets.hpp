// Running a check of SIMD code under every instruction set that this machine and this build share.
#pragma once

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include <set>
#include <string>

#include "backend/cpu/tile_kernels.hpp"

namespace kvbench::test {

// Runs `check` once per instruction set; afterwards the best one is chosen again.
template <class Check>
void under_every_instruction_set(Check check) {
  std::set<std::string> seen;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    const std::string name = tile::instruction_set();
    if (!seen.insert(name).second) continue;
    CAPTURE(name);
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  CHECK(!seen.empty());
}

}  // namespace kvbench::test
