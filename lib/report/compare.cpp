// Definitions of report/compare.hpp.
#include "report/compare.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "report/equal_budgets.hpp"
#include "report/paired_difference.hpp"

namespace kvbench {
namespace {

// Settings that follow from the policy's text, or that runs to be compared may differ in.
const std::set<std::string>& silent_settings() {
  static const std::set<std::string> kNames = {"policy_name", "evict", "positions",
                                               "kvbench_version"};
  return kNames;
}

bool same_configuration(const ResultRun& a, const ResultRun& b) {
  if (!a.comparison_hash.empty() && !b.comparison_hash.empty()) {
    return a.comparison_hash == b.comparison_hash;
  }
  return a.config_hash == b.config_hash;
}

bool is_regression(Verdict verdict, bool allow_missing) {
  return verdict == Verdict::worse || verdict == Verdict::failed ||
         (verdict == Verdict::missing && !allow_missing);
}

Verdict judge(const MetricComparison& metric) {
  const Tolerance& tolerance = metric.tolerance;
  const double difference = *metric.new_value - *metric.old_value;
  if (difference == 0) return Verdict::equal;
  const double distance = std::abs(difference);
  const double noise = tolerance.sigmas * metric.error.value_or(0.0);
  if (distance <= tolerance.allowed(*metric.old_value) || distance <= noise) return Verdict::within;
  if (tolerance.worse == Worse::both) return Verdict::worse;
  return (difference > 0) == (tolerance.worse == Worse::higher) ? Verdict::worse
                                                                : Verdict::improved;
}

void add_error(const ResultRun& a, const ResultRun& b, MetricComparison& metric) {
  const std::string& name = metric.tolerance.metric;
  if (a.record && b.record) {
    metric.error = paired_standard_error(*a.record, *b.record, name);
    metric.paired = metric.error.has_value();
  }
  const auto error_a = a.error_bar(name);
  const auto error_b = b.error_bar(name);
  if (!metric.error && error_a && error_b) metric.error = std::hypot(*error_a, *error_b);
}

// Null for a metric that neither run has.
std::optional<MetricComparison> compare_metric(const ResultRun& a, const ResultRun& b,
                                               const Tolerance& tolerance) {
  MetricComparison metric;
  metric.tolerance = tolerance;
  metric.old_value = a.metric(tolerance.metric);
  metric.new_value = b.metric(tolerance.metric);
  if (!metric.old_value && !metric.new_value) return std::nullopt;
  if (!metric.old_value) {
    metric.verdict = Verdict::only_new;
  } else if (!metric.new_value) {
    metric.verdict = Verdict::missing;
  } else {
    add_error(a, b, metric);
    metric.verdict = judge(metric);
  }
  return metric;
}

// From what says most to what says least. A missing number that is allowed must hide no worse one.
int weight(Verdict verdict) {
  switch (verdict) {
    case Verdict::failed:
      return 7;
    case Verdict::worse:
      return 6;
    case Verdict::missing:
      return 5;
    case Verdict::both_failed:
      return 4;
    case Verdict::improved:
      return 3;
    case Verdict::only_new:
      return 2;
    case Verdict::within:
      return 1;
    case Verdict::equal:
      break;
  }
  return 0;
}

RunComparison named(const std::string& label, const ResultRun& of, Verdict verdict) {
  RunComparison run;
  run.label = label;
  run.config_hash = of.config_hash;
  run.verdict = verdict;
  return run;
}

RunComparison compare_runs(const ResultRun& a, const ResultRun& b, const std::string& label,
                           std::span<const Tolerance> tolerances) {
  RunComparison run = named(label, b, Verdict::equal);
  if (!b.ok) {
    run.verdict = a.ok ? Verdict::failed : Verdict::both_failed;
    run.note = b.reason;
    return run;
  }
  if (!a.ok) {
    run.verdict = Verdict::improved;
    run.note = "failed before: " + a.reason;
    return run;
  }
  for (const Tolerance& tolerance : tolerances) {
    if (auto metric = compare_metric(a, b, tolerance)) {
      if (weight(metric->verdict) > weight(run.verdict)) run.verdict = metric->verdict;
      run.metrics.push_back(*std::move(metric));
    }
  }
  if (run.metrics.empty()) run.note = "no metric of it has a tolerance";
  return run;
}

void warn_of_unused(const ResultSet& older, std::span<const Tolerance> tolerances,
                    std::span<const Tolerance> defaults, std::vector<std::string>& warnings) {
  for (const Tolerance& tolerance : tolerances) {
    const auto has = [&](const ResultRun& run) { return run.metric(tolerance.metric).has_value(); };
    const bool is_default =
        std::any_of(defaults.begin(), defaults.end(),
                    [&](const Tolerance& other) { return other.metric == tolerance.metric; });
    if (!is_default && std::none_of(older.runs.begin(), older.runs.end(), has)) {
      warnings.push_back(
          fmt::format("a tolerance is given for {}, which no run has", tolerance.metric));
    }
  }
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::equal:
      return "equal";
    case Verdict::within:
      return "within";
    case Verdict::improved:
      return "improved";
    case Verdict::worse:
      return "worse";
    case Verdict::missing:
      return "missing";
    case Verdict::failed:
      return "failed";
    case Verdict::both_failed:
      return "both_failed";
    case Verdict::only_new:
      break;
  }
  return "only_new";
}

int Comparison::count(Verdict verdict) const {
  return static_cast<int>(std::count_if(
      runs.begin(), runs.end(), [&](const RunComparison& run) { return run.verdict == verdict; }));
}

Comparison compare_results(const ResultSet& older, const ResultSet& newer,
                           std::span<const Tolerance> tolerances, bool allow_missing) {
  if (older.runs.empty()) config_error("the older results hold no runs: nothing to compare with");
  Comparison comparison;
  for (const ResultSet* side : {&older, &newer}) {
    comparison.warnings.insert(comparison.warnings.end(), side->warnings.begin(),
                               side->warnings.end());
  }
  warn_of_unused(older, tolerances, default_tolerances(true), comparison.warnings);
  const std::vector<std::string> old_labels = run_labels(older.runs);
  const std::vector<std::string> new_labels = run_labels(newer.runs);
  std::set<const ResultRun*> matched;
  for (std::size_t i = 0; i < older.runs.size(); ++i) {
    const ResultRun& a = older.runs[i];
    const auto b = std::find_if(newer.runs.begin(), newer.runs.end(),
                                [&](const ResultRun& run) { return same_configuration(a, run); });
    if (b == newer.runs.end()) {
      comparison.runs.push_back(named(old_labels[i], a, Verdict::missing));
    } else {
      matched.insert(&*b);
      if (auto fault = unequal_budgets(a, *b)) comparison.unequal.push_back(*std::move(fault));
      comparison.runs.push_back(compare_runs(a, *b, old_labels[i], tolerances));
    }
  }
  for (std::size_t i = 0; i < newer.runs.size(); ++i) {
    if (matched.count(&newer.runs[i]) > 0) continue;
    comparison.runs.push_back(named(new_labels[i], newer.runs[i], Verdict::only_new));
  }
  comparison.regression = std::any_of(
      comparison.runs.begin(), comparison.runs.end(),
      [&](const RunComparison& run) { return is_regression(run.verdict, allow_missing); });
  return comparison;
}

std::vector<std::string> run_labels(std::span<const ResultRun> runs) {
  std::map<std::string, std::set<std::string>> values;
  std::map<std::string, std::size_t> holders;
  const auto settings_of = [](const ResultRun& run) {
    auto settings = run.settings();
    const std::string model = std::filesystem::path(run.text("model")).filename().string();
    settings.insert(settings.begin(),
                    {{"task", run.task}, {"model", model}, {"data", run.text("data")}});
    return settings;
  };
  for (const ResultRun& run : runs) {
    for (const auto& [key, value] : settings_of(run)) {
      values[key].insert(value);
      ++holders[key];
    }
  }
  std::vector<std::string> labels;
  for (const ResultRun& run : runs) {
    std::string& label = labels.emplace_back(run.policy);
    for (const auto& [key, value] : settings_of(run)) {
      const bool differs = values[key].size() > 1 || holders[key] < runs.size();
      if (!differs || silent_settings().count(key) > 0) continue;
      label += fmt::format(", {} {}", key, value);
    }
  }
  return labels;
}

}  // namespace kvbench
