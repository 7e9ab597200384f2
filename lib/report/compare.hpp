// Two sets of results held against each other: runs matched by configuration, metrics judged by
// tolerances. What it finds worse is what a build must not pass with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/result_set.hpp"
#include "report/tolerances.hpp"

namespace kvbench {

enum class Verdict : std::uint8_t {
  equal,        // the same number
  within,       // different, within the tolerance
  improved,     // beyond the tolerance, for the better
  worse,        // beyond the tolerance: a regression
  missing,      // a run, or a number, that only the older side has: a regression unless allowed
  failed,       // the newer run ended in an error, the older did not: a regression
  both_failed,  // neither has a number; nothing can be said
  only_new      // a run, or a number, that only the newer side has
};

const char* verdict_name(Verdict verdict);

struct MetricComparison {
  Tolerance tolerance;
  std::optional<double> old_value;
  std::optional<double> new_value;
  std::optional<double> error;  // standard error of new - old
  bool paired = false;          // from rows of the same samples, else from both error bars
  Verdict verdict = Verdict::equal;
};

struct RunComparison {
  std::string label;        // the policy, and the settings by which the runs compared differ
  std::string config_hash;  // of the newer run where there is one
  Verdict verdict = Verdict::equal;  // the worst of its metrics
  std::string note;                  // reason of an error
  std::vector<MetricComparison> metrics;
};

struct Comparison {
  std::vector<RunComparison> runs;  // in the order of the older side, then what is only new
  std::vector<std::string> warnings;
  std::vector<std::string> unequal;  // pairs that held different numbers of entries
  bool regression = false;

  int count(Verdict verdict) const;  // of runs
};

// ConfigError when the older side holds no runs: nothing would be compared.
Comparison compare_results(const ResultSet& older, const ResultSet& newer,
                           std::span<const Tolerance> tolerances, bool allow_missing);

// One label per run: the policy, and those settings in which runs of the set differ.
std::vector<std::string> run_labels(std::span<const ResultRun> runs);

}  // namespace kvbench
