// How long the cells of a plan take: at the speeds of runs that are finished, else at best, by what
// the machine can do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "task/machine_peaks.hpp"
#include "task/sweep_plan.hpp"

namespace kvbench {

class CellTimes {
 public:
  // Looks at the runs that are finished in `out`; the folder need not exist.
  explicit CellTimes(const std::filesystem::path& out);

  // At the median speed of runs of the same task, model and policy, else of any policy; where there
  // is none, what the products of the weights take at least.
  double seconds(const SweepCell& cell, const TaskEstimate& estimate);
  // What the seconds asked for rest on.
  std::string basis() const;

 private:
  struct Rates {
    std::vector<double> prompt;  // tokens per second
    std::vector<double> other;
  };

  const Rates* find_rates(const SweepCell& cell) const;
  double at_best(const SweepCell& cell, const TaskEstimate& estimate);
  const MachinePeaks& peaks_of(const SweepCell& cell, const std::string& dtype);

  std::map<std::string, Rates> rates_;
  std::map<std::string, MachinePeaks> peaks_;  // by backend and dtype
  std::size_t runs_ = 0;
  std::size_t cells_at_best_ = 0;
  std::size_t cells_measured_ = 0;
};

}  // namespace kvbench
