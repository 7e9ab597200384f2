// Definitions of cell_times.hpp.
#include "apps/kvbench/cell_times.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "backend/registry.hpp"
#include "core/stats.hpp"
#include "model/model_config.hpp"
#include "report/environment.hpp"
#include "report/record_store.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::json;

std::optional<double> rate_of(const Json& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_number() || found->get<double>() <= 0) return std::nullopt;
  return found->get<double>();
}

std::string setting_of(const SweepCell& cell, const char* name, const char* fallback) {
  const SettingTexts* texts = cell.find(name);
  return texts == nullptr ? fallback : texts->front();
}

std::string key_of(const std::string& task, const std::string& model, const std::string& policy) {
  return fmt::format("{}\n{}\n{}", task, model, policy);
}

double median(const std::vector<double>& values) {
  return percentile(values, 0.5);
}

}  // namespace

CellTimes::CellTimes(const std::filesystem::path& out) {
  if (out.empty() || !std::filesystem::exists(out / "index.jsonl")) return;
  for (const IndexEntry& entry : RecordStore(out).read().entries) {
    const Json row = Json::parse(entry.row_json);
    auto other = rate_of(row, "tokens_per_s");
    if (!other) other = rate_of(row, "decode_tokens_per_s");
    if (!entry.ok || !other) continue;
    const double prompt = rate_of(row, "prefill_tokens_per_s").value_or(*other);
    const std::string task = row.value("task", "");
    const std::string model = row.value("model", "");
    for (const std::string& policy : {entry.policy, std::string()}) {
      Rates& rates = rates_[key_of(task, model, policy)];
      rates.prompt.push_back(prompt);
      rates.other.push_back(*other);
    }
    ++runs_;
  }
}

const CellTimes::Rates* CellTimes::find_rates(const SweepCell& cell) const {
  const std::string model = setting_of(cell, "model", "");
  auto found = rates_.find(key_of(cell.task, model, cell.policy));
  if (found == rates_.end()) found = rates_.find(key_of(cell.task, model, ""));
  return found == rates_.end() ? nullptr : &found->second;
}

double CellTimes::seconds(const SweepCell& cell, const TaskEstimate& estimate) {
  const Rates* rates = find_rates(cell);
  if (rates == nullptr) {
    ++cells_at_best_;
    return at_best(cell, estimate);
  }
  ++cells_measured_;
  return static_cast<double>(estimate.prompt_tokens) / median(rates->prompt) +
         static_cast<double>(estimate.tokens - estimate.prompt_tokens) / median(rates->other);
}

// Every token meets every weight once: many tokens at a time as fast as products go, one at a time
// as fast as the weights can be read.
double CellTimes::at_best(const SweepCell& cell, const TaskEstimate& estimate) {
  const std::string model = setting_of(cell, "model", "");
  const std::string dtype = setting_of(cell, "dtype", "f32");
  const DType stored = read_model_config(model).declared_dtype.value_or(DType::bf16);
  const double weights =
      static_cast<double>(weight_file_bytes(model)) / static_cast<double>(dtype_size(stored));
  const MachinePeaks& peaks = peaks_of(cell, dtype);
  const double element =
      static_cast<double>(dtype_size(dtype == "bf16" ? DType::bf16 : DType::f32));
  const auto single = static_cast<double>(estimate.single_tokens);
  const double many = static_cast<double>(estimate.tokens) - single;
  return weights * (2.0 * many / peaks.flops_per_s + element * single / peaks.read_bytes_per_s);
}

const MachinePeaks& CellTimes::peaks_of(const SweepCell& cell, const std::string& dtype) {
  const std::string name = setting_of(cell, "backend", "auto");
  const auto [place, is_new] = peaks_.emplace(name + '\n' + dtype, MachinePeaks{});
  if (is_new) {
    const auto backend = make_backend(name, usable_cpus());
    place->second =
        measure_peaks(*backend, dtype == "bf16" ? DType::bf16 : DType::f32, kQuickPeaks);
  }
  return place->second;
}

std::string CellTimes::basis() const {
  std::string text;
  if (cells_measured_ > 0) {
    text = fmt::format("at the tokens per second of {} finished runs there", runs_);
  }
  if (cells_at_best_ == 0) return text;
  const std::string rest = text.empty() ? "" : fmt::format("; {} cells ", cells_at_best_);
  return text + rest + "at best, by this machine's peaks (attention and policies left out)";
}

}  // namespace kvbench
