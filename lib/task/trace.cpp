// Feeding, generating, and reading out one session.
#include "task/trace.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "backend/registry.hpp"
#include "core/error.hpp"
#include "engine/generate.hpp"
#include "engine/session.hpp"
#include "model/model.hpp"
#include "policy/registry.hpp"
#include "task/run_record.hpp"

namespace kvbench {
namespace {

void check_finite(std::span<const double> nll) {
  for (std::size_t i = 0; i < nll.size(); ++i) {
    if (!std::isfinite(nll[i])) data_error("non-finite logits at token {}", i);
  }
}

KeptPlaces kept_places(const Session& session, const ModelConfig& config) {
  KeptPlaces kept;
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    kept.emplace_back();
    for (std::int64_t kv_head = 0; kv_head < config.n_kv_heads; ++kv_head) {
      kept.back().push_back(session.kept_positions(layer, kv_head));
    }
  }
  return kept;
}

void feed(Session& session, const ModelConfig& config, const TraceRequest& request, Trace& trace) {
  trace.nll.resize(trace.ids.size() - 1);
  const std::span<const std::int32_t> ids(trace.ids);
  const std::span<double> nll(trace.nll);
  const std::size_t prompt = request.ids.size();
  const std::size_t scored = std::min(prompt, nll.size());
  session.prefill(ids.first(prompt), ids.subspan(1, scored), nll.first(scored),
                  ids.subspan(prompt));
  trace.kept_after_prompt = kept_places(session, config);
  for (std::size_t i = prompt; i < ids.size(); ++i) {
    const std::size_t target = i + 1 < ids.size() ? 1 : 0;
    session.feed(ids.subspan(i, 1), ids.subspan(i + target, target), nll.subspan(i, target));
  }
  check_finite(trace.nll);
}

void generate(Session& session, const ModelConfig& config, const TraceRequest& request,
              Trace& trace) {
  GenerateOptions options;
  options.max_new_tokens = request.greedy;
  if (!request.ignore_stop_ids) options.stop_ids = config.stop_ids;
  Generation generation = generate_greedy(session, options);
  trace.generated = std::move(generation.ids);
  trace.finish = generation.stopped ? "stop" : "length";
}

}  // namespace

Trace run_trace(const TraceRequest& request) {
  if (request.ids.empty()) config_error("no tokens: give --ids, --ids-file or --text");
  ConfiguredPolicy configured = make_policy(request.policy);
  const auto backend = make_backend(request.backend, request.threads, request.devices);
  const Model model = request.load_model(*backend);
  Session session(model, *backend, *configured.policy, request.session_options());

  Trace trace;
  trace.policy = configured.text;
  trace.ids = request.ids;
  trace.ids.insert(trace.ids.end(), request.decode.begin(), request.decode.end());
  trace.warnings = model.warnings();
  session.begin(static_cast<std::int64_t>(trace.ids.size()) + request.greedy);
  feed(session, model.config(), request, trace);
  trace.last_logits.resize(static_cast<std::size_t>(model.config().vocab_size));
  session.last_logits(trace.last_logits);
  likeliest_id(trace.last_logits, session.tokens_fed() - 1);
  if (request.greedy > 0) generate(session, model.config(), request, trace);

  const KvCache& cache = session.cache();
  trace.kept = kept_places(session, model.config());
  trace.kv_bytes_live = cache.live_bytes();
  trace.kv_bytes_allocated = cache.allocated_bytes();
  trace.kv_bytes_peak = cache.peak_live_bytes();
  trace.evicted = session.evicted_entries();
  trace.ties_at_cut = session.ties_at_cut();
  trace.quantised_rows = cache.quantised_rows();
  if (request.kivi && trace.quantised_rows == 0) trace.warnings.emplace_back(kNothingQuantised);
  return trace;
}

}  // namespace kvbench
