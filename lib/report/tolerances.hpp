// How far each metric of a run may drift from the run it is compared with, and in which direction
// drifting is worse. A JSON file changes and extends the defaults.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kvbench {

enum class Worse : std::uint8_t { higher, lower, both };

struct Tolerance {
  std::string metric;
  double absolute = 0.0;  // in the metric's unit
  double relative = 0.0;  // share of the older value; the wider of the two counts
  double sigmas = 0.0;    // a regression must also be this many error bars away
  Worse worse = Worse::higher;

  double allowed(double old_value) const;
};

const char* worse_name(Worse worse);  // "higher", ...

// Perplexity, hit rate, accuracy and the size of the cache; with `speed` also times and memory of
// the process, which depend on the machine and on what else it does.
std::vector<Tolerance> default_tolerances(bool speed);

// {"metrics": {"ppl": {"relative": 0.01, "worse": "higher"}, "hit_rate": null}}: a metric named
// takes the place of a default one, null takes it out. ConfigError for anything else.
void read_tolerances(const std::filesystem::path& path, std::vector<Tolerance>& tolerances);

}  // namespace kvbench
