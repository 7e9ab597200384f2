// Definitions of report/tolerances.hpp.
#include "report/tolerances.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "io/json_reader.hpp"

namespace kvbench {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

Worse worse_of(const JsonReader& reader, Worse fallback) {
  const auto text = reader.optional_string("worse");
  if (!text) return fallback;
  for (const Worse worse : {Worse::higher, Worse::lower, Worse::both}) {
    if (*text == worse_name(worse)) return worse;
  }
  reader.fail("worse", fmt::format("expected higher, lower or both, found \"{}\"", *text));
}

// What the file leaves out of a known metric is taken from the default, but not its limits.
Tolerance parse_tolerance(const JsonReader& reader, const std::string& metric,
                          const Tolerance* known) {
  static const std::array<std::string, 4> kKeys{"absolute", "relative", "sigmas", "worse"};
  reader.reject_unknown_keys(kKeys);
  const auto absolute = reader.optional_double("absolute", 0.0, kLargest);
  const auto relative = reader.optional_double("relative", 0.0, kLargest);
  if (!absolute && !relative) reader.fail("relative", "neither absolute nor relative is given");
  if (known == nullptr && reader.presence("worse") == Presence::absent) {
    reader.fail("worse", "missing: which direction is worse? higher, lower or both");
  }
  return {.metric = metric,
          .absolute = absolute.value_or(0.0),
          .relative = relative.value_or(0.0),
          .sigmas = reader.optional_double("sigmas", 0.0, kLargest).value_or(0.0),
          .worse = worse_of(reader, known == nullptr ? Worse::both : known->worse)};
}

}  // namespace

double Tolerance::allowed(double old_value) const {
  return std::max(absolute, relative * std::abs(old_value));
}

const char* worse_name(Worse worse) {
  if (worse == Worse::both) return "both";
  return worse == Worse::higher ? "higher" : "lower";
}

std::vector<Tolerance> default_tolerances(bool speed) {
  // Equal code on another CPU moves bf16 results, and entries at the edge of a budget, by less.
  std::vector<Tolerance> tolerances = {
      {.metric = "ppl", .relative = 0.01, .worse = Worse::higher},
      {.metric = "accuracy", .absolute = 0.02, .worse = Worse::lower},
      {.metric = "score", .absolute = 1.0, .worse = Worse::lower},  // of 100, question answering
      {.metric = "hit_rate", .absolute = 0.01, .worse = Worse::lower},
      {.metric = "mass_recall", .absolute = 0.01, .worse = Worse::lower},
      {.metric = "kv_bytes_peak", .relative = 0.01, .worse = Worse::higher},
      // Of another number of tokens, no other number can be compared.
      {.metric = "tokens_scored", .worse = Worse::both},
  };
  if (speed) {
    for (const char* rate : {"tokens_per_s", "prefill_tokens_per_s", "decode_tokens_per_s"}) {
      tolerances.push_back({.metric = rate, .relative = 0.1, .worse = Worse::lower});
    }
    tolerances.push_back({.metric = "peak_rss_bytes", .relative = 0.1, .worse = Worse::higher});
  }
  return tolerances;
}

void read_tolerances(const std::filesystem::path& path, std::vector<Tolerance>& tolerances) {
  const nlohmann::json document =
      read_json_file(path, {.allow_bom = true, .errors = JsonErrors::config});
  const JsonReader root(document, path.string(), JsonErrors::config);
  static const std::array<std::string, 1> kKeys{"metrics"};
  root.reject_unknown_keys(kKeys);
  const JsonReader metrics = root.require_object("metrics");
  for (const std::string& name : metrics.names()) {
    const auto known =
        std::find_if(tolerances.begin(), tolerances.end(),
                     [&](const Tolerance& tolerance) { return tolerance.metric == name; });
    const bool is_known = known != tolerances.end();
    if (metrics.presence(name) == Presence::null) {
      if (is_known) tolerances.erase(known);
      continue;
    }
    Tolerance tolerance =
        parse_tolerance(metrics.require_object(name), name, is_known ? &*known : nullptr);
    if (is_known) {
      *known = std::move(tolerance);
    } else {
      tolerances.push_back(std::move(tolerance));
    }
  }
}

}  // namespace kvbench
