// Which rows of a record belong to which metric, and the paired error bar from them.
#include "report/paired_difference.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/stats.hpp"
#include "report/json_reporter.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

// Where the samples behind a metric stand in `details`.
struct SampleRows {
  const char* metric;
  const char* list;
  std::vector<const char*> identity;  // fields that tell one sample from another
  const char* value;
  const char* weight;  // field, or null: all samples count the same
  bool exponential;    // the metric is exp of the weighted mean
};

const std::vector<SampleRows>& sample_rows() {
  static const std::vector<SampleRows> kTable = {
      {"ppl", "documents", {"name"}, "nll_mean", "tokens_scored", true},
      {"nll_mean", "documents", {"name"}, "nll_mean", "tokens_scored", false},
      {"accuracy",
       "samples",
       {"template", "length", "depth", "repeat", "query"},
       "ok",
       nullptr,
       false},
  };
  return kTable;
}

struct Sample {
  std::string identity;
  double value = 0.0;
  double weight = 1.0;
};

std::optional<double> number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_boolean()) return found->get<bool>() ? 1.0 : 0.0;
  if (!found->is_number()) return std::nullopt;
  return found->get<double>();
}

// Samples without a value (a document too short to score) are left out.
std::vector<Sample> read_samples(const Json& record, const SampleRows& rows) {
  std::vector<Sample> samples;
  const auto details = record.find("details");
  if (details == record.end() || !details->is_object()) return samples;
  const auto list = details->find(rows.list);
  if (list == details->end() || !list->is_array()) return samples;
  for (const Json& entry : *list) {
    if (!entry.is_object()) continue;
    const auto value = number(entry, rows.value);
    if (!value) continue;
    Sample& sample = samples.emplace_back();
    sample.value = *value;
    for (const char* field : rows.identity) {
      const auto found = entry.find(field);
      sample.identity += (found == entry.end() ? "" : dump_json(*found)) + "|";
    }
    if (rows.weight != nullptr) sample.weight = number(entry, rows.weight).value_or(0.0);
  }
  std::stable_sort(samples.begin(), samples.end(),
                   [](const Sample& x, const Sample& y) { return x.identity < y.identity; });
  return samples;
}

// The same samples in the same weights, so that only the values differ.
bool paired(std::span<const Sample> a, std::span<const Sample> b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const Sample& x, const Sample& y) {
           return x.identity == y.identity && x.weight == y.weight;
         });
}

double weighted_mean(std::span<const Sample> samples) {
  CompensatedSum total;
  CompensatedSum weight;
  for (const Sample& sample : samples) {
    total.add(sample.weight * sample.value);
    weight.add(sample.weight);
  }
  return total.value() / weight.value();
}

// Of the weighted mean of the samples, as a ratio of sums over independent samples (Cochran,
// Sampling Techniques, section 6.3): sqrt(n/(n-1) sum w^2 (d - mean)^2) / sum w.
std::optional<double> ratio_standard_error(std::span<const Sample> samples) {
  if (samples.size() < 2) return std::nullopt;
  const double center = weighted_mean(samples);
  CompensatedSum squares;
  CompensatedSum weight;
  for (const Sample& sample : samples) {
    squares.add(std::pow(sample.weight * (sample.value - center), 2));
    weight.add(sample.weight);
  }
  const auto n = static_cast<double>(samples.size());
  return std::sqrt(n / (n - 1) * squares.value()) / weight.value();
}

}  // namespace

std::optional<double> paired_standard_error(const Json& a, const Json& b, std::string_view metric) {
  for (const SampleRows& rows : sample_rows()) {
    if (metric != rows.metric) continue;
    std::vector<Sample> old_samples = read_samples(a, rows);
    const std::vector<Sample> new_samples = read_samples(b, rows);
    if (old_samples.size() < 2 || !paired(old_samples, new_samples)) return std::nullopt;
    double scale = 1.0;
    // exp(y) - exp(x) moves with y - x by about the mean of both values.
    if (rows.exponential) {
      scale = 0.5 * (std::exp(weighted_mean(old_samples)) + std::exp(weighted_mean(new_samples)));
    }
    for (std::size_t i = 0; i < old_samples.size(); ++i) {
      old_samples[i].value = new_samples[i].value - old_samples[i].value;
    }
    const auto error = ratio_standard_error(old_samples);
    return error ? std::optional(scale * *error) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace kvbench
