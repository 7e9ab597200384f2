// The attention task: passes over the text, and their record.
#include "task/attention.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/stats.hpp"
#include "engine/session.hpp"
#include "engine/step_weights.hpp"
#include "model/model_config.hpp"
#include "policy/registry.hpp"
#include "report/json_reporter.hpp"
#include "report/progress.hpp"
#include "task/run_record.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kBootstrapBlock = 64;  // queries

class ProfileObserver final : public LayerHook {
 public:
  ProfileObserver(Backend& backend, AttentionProfile& profile)
      : weights_(backend), profile_(profile) {}

  void after_attention(const LayerState& state, KvCache&) override {
    weights_.read(state);
    for (std::int64_t token = 0; token < state.attention.n_tokens; ++token) {
      const auto own = static_cast<std::size_t>(state.attention.q_positions[token]);
      for (std::int64_t head = 0; head < state.attention.n_heads; ++head) {
        profile_.add(state.layer, head, weights_.row(head, token).first(own + 1));
      }
    }
  }

 private:
  StepWeights weights_;
  AttentionProfile& profile_;
};

AttentionProfile profile_of(const AttentionRequest& request, const LoadedModel& loaded,
                            const ConfiguredPolicy& full, const Ids& ids, bool quiet) {
  const Model& model = *loaded.model;
  const ModelConfig& config = model.config();
  AttentionProfile profile(config.n_layers, config.n_heads, request.profile);
  ProfileObserver observer(*loaded.backend, profile);
  SessionOptions options = request.session_options();
  options.chunk = StepWeights::tokens_per_step(
      config.n_heads, std::ssize(ids) + model.sinks().count(), request.chunk);
  Session session(model, *loaded.backend, *full.policy, options);
  session.begin(std::ssize(ids));
  session.observe(&observer);
  Progress progress("attention", "tok", std::ssize(ids), quiet);
  const std::span<const std::int32_t> text(ids);
  const auto step = static_cast<std::size_t>(options.chunk);
  for (std::size_t first = 0; first < ids.size(); first += step) {
    session.feed(text.subspan(first, std::min(step, ids.size() - first)));
    progress.update(session.tokens_fed());
  }
  progress.finish();
  return profile;
}

Ids text_of(const AttentionRequest& request, const TokenSource& source) {
  if (source.documents.empty()) data_error("{}: no text", source.name);
  const Ids& all = source.documents.front().ids;
  if (request.offset + request.prompt > std::ssize(all)) {
    data_error("{}: {} tokens, but {} from token {} on were asked for", source.name, all.size(),
               request.prompt, request.offset);
  }
  const auto first = all.begin() + request.offset;
  return {first, first + request.prompt};
}

std::int32_t replacement(const AttentionRequest& request, const TokenSource& source) {
  if (request.replace_id >= 0) return static_cast<std::int32_t>(request.replace_id);
  if (source.tokenizer == nullptr) {
    config_error("--replace-first of plain token ids needs --replace-id");
  }
  const Ids ids = source.tokenizer->encode("\n");
  if (ids.size() != 1) {
    config_error("a line break is {} tokens of this tokenizer: give --replace-id", ids.size());
  }
  return ids.front();
}

Json shares_json(const AttentionShares& sum) {
  const AttentionShares mean = sum.mean();
  return {{"first1", mean.first_one},
          {"first4", mean.first},
          {"recent", mean.recent},
          {"rest", mean.rest},
          {"entropy", mean.entropy}};
}

// Means per layer, matrices of [layer][query head], and maps of [layer][query][key] to five places.
Json profile_json(const AttentionProfile& profile, std::int64_t map) {
  Json layers = Json::array();
  Json heads = Json::array();
  Json maps = Json::array();
  for (std::int64_t layer = 0; layer < profile.n_layers(); ++layer) {
    Json row = {{"layer", layer}};
    row.update(shares_json(profile.layer(layer)));
    layers.push_back(std::move(row));
    Json of_heads = Json::array();
    for (std::int64_t head = 0; head < profile.n_heads(); ++head) {
      of_heads.push_back(shares_json(profile.head(layer, head)));
    }
    heads.push_back(std::move(of_heads));
    Json rows = Json::array();
    for (std::int64_t query = 0; query < map; ++query) {
      Json keys = Json::array();
      for (const double weight : profile.map_row(layer, query)) {
        keys.push_back(std::round(weight * 1e5) / 1e5);
      }
      rows.push_back(std::move(keys));
    }
    maps.push_back(std::move(rows));
  }
  return {{"layers", std::move(layers)}, {"heads", std::move(heads)}, {"maps", std::move(maps)}};
}

struct Share {
  const char* name;
  double AttentionShares::*field;
  const char* unit;
};

constexpr Share kShares[] = {{"first1_mass", &AttentionShares::first_one, ""},
                             {"first4_mass", &AttentionShares::first, ""},
                             {"recent_mass", &AttentionShares::recent, ""},
                             {"rest_mass", &AttentionShares::rest, ""},
                             {"attention_entropy", &AttentionShares::entropy, "nat"}};

std::vector<double> series_of(const AttentionProfile& profile, const Share& share) {
  std::vector<double> series;
  for (const AttentionShares& query : profile.queries())
    series.push_back(query.mean().*share.field);
  return series;
}

Metric share_metric(const std::string& name, const std::vector<double>& series,
                    const Share& share) {
  return sampled_metric(name, mean(series), share.unit, std::ssize(series),
                        block_bootstrap_standard_error(series, kBootstrapBlock).value);
}

void add_results(const AttentionProfile& plain, const AttentionProfile* replaced, std::int64_t map,
                 RunRecord& record) {
  for (const Share& share : kShares) {
    record.metrics.push_back(share_metric(share.name, series_of(plain, share), share));
  }
  record.metrics.push_back(count_metric("queries", std::ssize(plain.queries()), ""));
  Json details = profile_json(plain, map);
  if (replaced != nullptr) {
    for (const Share& share : kShares) {
      std::vector<double> series = series_of(*replaced, share);
      record.metrics.push_back(share_metric(std::string(share.name) + "_replaced", series, share));
      const std::vector<double> before = series_of(plain, share);
      for (std::size_t i = 0; i < series.size(); ++i) series[i] -= before[i];
      record.metrics.push_back(share_metric(std::string(share.name) + "_change", series, share));
    }
    details["replaced"] = profile_json(*replaced, map);
  }
  record.details_json = dump_json(details);
}

RunRecord describe(const AttentionRequest& request, const ConfiguredPolicy& full,
                   const Model& model, const TokenSource& source, const Backend& backend,
                   std::optional<std::int32_t> replaced_by) {
  Json config = run_config("attention", request, full, model);
  add_text_config(request.tokens, source, config);
  config.update({{"offset", request.offset},
                 {"prompt", request.prompt},
                 {"after", request.profile.after},
                 {"first", request.profile.first},
                 {"recent", request.profile.recent},
                 {"map", request.profile.map},
                 {"replace_first", request.replace_first}});
  if (replaced_by) config["replace_id"] = *replaced_by;
  RunRecord record = start_record(config, request, full, model, backend);
  note_data(source, record);
  return record;
}

}  // namespace

void check_attention(const AttentionRequest& request) {
  if (request.prompt < 2) {
    config_error("--prompt {}: expected at least 2 tokens", request.prompt);
  }
  if (request.profile.after > request.prompt - 2) {
    config_error("--after {}: no query of --prompt {} is behind it", request.profile.after,
                 request.prompt);
  }
  if (request.replace_first > request.prompt) {
    config_error("--replace-first {}: more than --prompt {}", request.replace_first,
                 request.prompt);
  }
  if (request.kivi) config_error("--kv kivi: attention is looked at with plain keys");
}

TaskEstimate estimate_attention(const AttentionRequest& request) {
  check_attention(request);
  const std::int64_t token_bytes =
      read_model_config(request.model).kv_bytes_per_token(request.kv_dtype);
  return {.tokens = request.prompt * (request.replace_first > 0 ? 2 : 1),
          .kv_bytes = request.prompt * token_bytes};
}

std::vector<RunRecord> run_attention(const AttentionRequest& request, TaskContext& context) {
  check_attention(request);
  const TokenSource source = context.tokens(request.tokens, request.model);
  Ids ids = text_of(request, source);
  LoadedModel& loaded = context.open(request);
  const ConfiguredPolicy full = make_policy("full");
  std::optional<std::int32_t> replaced_by;
  if (request.replace_first > 0) replaced_by = replacement(request, source);
  RunRecord record = describe(request, full, *loaded.model, source, *loaded.backend, replaced_by);
  if (context.find_done(record) != nullptr) return {};
  context.load(request);
  const auto start = Clock::now();
  // The map is as large as the text allows.
  AttentionRequest sized = request;
  sized.profile.map = std::min(request.profile.map, request.prompt);
  run_guarded(record, "first4_mass", [&] {
    const AttentionProfile plain = profile_of(sized, loaded, full, ids, context.quiet);
    std::optional<AttentionProfile> replaced;
    if (replaced_by) {
      std::fill_n(ids.begin(), request.replace_first, *replaced_by);
      replaced = profile_of(sized, loaded, full, ids, context.quiet);
    }
    add_results(plain, replaced ? &*replaced : nullptr, sized.profile.map, record);
    record.timings = {{"load", loaded.load_seconds}, {"attention", seconds_since(start)}};
  });
  context.finish(record);
  return {std::move(record)};
}

}  // namespace kvbench
