// PplScorer. Scoring is teacher forced: what is fed next is always the text's own token, and the
// evicted cache feeds every later prediction.
#include "task/ppl_scorer.hpp"

#include <algorithm>
#include <utility>

#include "core/clock.hpp"
#include "core/error.hpp"

namespace kvbench {

std::optional<TextSegment> TextSegments::next() {
  const bool carry = request_.documents == DocumentMode::carry;
  for (;;) {
    while (segment_ < segments_.size()) {
      Segment& segment = segments_[segment_++];
      if (segment.ids.size() < 2) continue;
      return TextSegment{std::move(segment), document_ - 1, number_++, std::exchange(lead_, {})};
    }
    if (document_ == source_.documents.size()) return std::nullopt;
    if (carry && document_ > 0 && !source_.documents[document_ - 1].ids.empty()) {
      lead_.push_back(source_.documents[document_ - 1].ids.back());
    }
    segments_ = protocol_.cut(source_.documents[document_++].ids, request_.protocol_options);
    segment_ = 0;
  }
}

void OrderedLosses::begin(const TextSegment& segment) {
  KVB_CHECK(segment.number == first_ + std::ssize(runs_), "segment {} begun out of order",
            segment.number);
  runs_.push_back({segment.document, segment.segment.first_position, {}});
}

void OrderedLosses::add(const TextSegment& segment, std::size_t first,
                        std::span<const double> nll) {
  Run& run = runs_[static_cast<std::size_t>(segment.number - first_)];
  // What is scored of a segment is scored without a gap.
  if (run.nll.empty()) {
    run.first_position = segment.segment.first_position + static_cast<std::int64_t>(first);
  }
  run.nll.insert(run.nll.end(), nll.begin(), nll.end());
  if (segment.number == first_) pass_on(run);
}

void OrderedLosses::end(const TextSegment& segment) {
  runs_[static_cast<std::size_t>(segment.number - first_)].ended = true;
  while (!runs_.empty() && runs_.front().ended) {
    pass_on(runs_.front());
    runs_.pop_front();
    ++first_;
  }
  if (!runs_.empty()) pass_on(runs_.front());
}

void OrderedLosses::pass_on(Run& run) {
  meter_.add(run.document, run.first_position, run.nll);
  run.nll.clear();
}

PplScorer::PplScorer(const PplSetting& setting, const ConfiguredPolicy& configured)
    : setting_(setting),
      carry_(setting.request.documents == DocumentMode::carry),
      batch_(
          setting.model, setting.backend, setting.request.streams,
          [&] { return make_policy(configured.text).policy; }, setting.request.session_options()),
      segments_(setting.source, setting.protocol, setting.request),
      lanes_(static_cast<std::size_t>(setting.request.streams)),
      sizes_(setting.source.documents.size()) {}

void PplScorer::run(PerplexityMeter& meter, PplMeasured& measured, Progress& progress) {
  for (const TokenDocument& document : setting_.source.documents)
    meter.begin_document(document.name);
  OrderedLosses losses(meter);
  std::vector<StreamBatch::Turn> turns;
  if (carry_) batch_.session(0).begin(setting_.source.total_tokens());
  for (;;) {
    turns.clear();
    for (std::int64_t stream = 0; stream < batch_.size(); ++stream) {
      Lane& lane = lanes_[static_cast<std::size_t>(stream)];
      if (!lane.at && (lane.at = segments_.next())) {
        losses.begin(*lane.at);
        ++measured.segments;
        start(stream, measured);
      }
      if (lane.at) turns.push_back(turn(stream));
    }
    if (turns.empty()) return;
    const auto started = Clock::now();
    batch_.feed(turns);
    measured.seconds += seconds_since(started);
    ++measured.passes;
    measured.turns += std::ssize(turns);
    for (const StreamBatch::Turn& turn : turns) {
      Lane& lane = lanes_[static_cast<std::size_t>(turn.stream)];
      if (!turn.nll.empty()) losses.add(*lane.at, lane.fed + 1, turn.nll);
      lane.fed += turn.ids.size();
      measured.tokens_fed += std::ssize(turn.ids);
      if (lane.fed + 1 < lane.at->segment.ids.size()) continue;
      losses.end(*lane.at);
      finish(turn.stream, meter, measured);
    }
    progress.update(measured.prefill_tokens + measured.tokens_fed);
  }
}

void PplScorer::start(std::int64_t stream, PplMeasured& measured) {
  Lane& lane = lanes_[static_cast<std::size_t>(stream)];
  Session& session = batch_.session(stream);
  const Segment& segment = lane.at->segment;
  const std::span<const std::int32_t> ids(segment.ids);
  if (!carry_) session.begin(std::ssize(ids));
  session.feed(lane.at->lead);
  lane.fed = segment.prompt;
  if (segment.prompt > 0) run_prompt(session, ids.first(ids.size() - 1), segment.prompt, measured);
}

// ids: the prompt, and what will be fed after it.
void PplScorer::run_prompt(Session& session, std::span<const std::int32_t> ids, std::size_t length,
                           PplMeasured& measured) {
  const auto prompt = ids.first(length);
  const auto future = ids.subspan(length);
  const SharedPrompt* shared =
      setting_.prompts.find(measured.prompts++, prompt, std::ssize(ids) + 1, session.traits());
  const auto started = Clock::now();
  if (shared != nullptr) {
    session.prefill_from(*shared->twin, prompt, future);
    measured.prefill_seconds += shared->seconds;
    measured.shared_prefill_seconds += shared->seconds;
  } else {
    session.prefill(prompt, {}, {}, future);
  }
  measured.prefill_seconds += seconds_since(started);
  measured.prefill_tokens += std::ssize(prompt);
  measured.kept.push_back(session.cache().mean_length());
}

// Up to the first scored token nothing is scored. The last token of a segment is a target only:
// nothing after it is scored.
StreamBatch::Turn PplScorer::turn(std::int64_t stream) {
  Lane& lane = lanes_[static_cast<std::size_t>(stream)];
  const Segment& segment = lane.at->segment;
  const std::span<const std::int32_t> ids(segment.ids);
  const bool warm_up = lane.fed + 1 < segment.first_scored;
  const std::size_t last = warm_up ? segment.first_scored - 1 : ids.size() - 1;
  const std::size_t end =
      std::min(last, lane.fed + static_cast<std::size_t>(batch_.tokens_per_turn()));
  const auto part = ids.subspan(lane.fed, end - lane.fed);
  lane.nll.resize(warm_up ? 0 : part.size());
  return {stream, part, ids.subspan(lane.fed + 1, lane.nll.size()), lane.nll};
}

void PplScorer::finish(std::int64_t stream, PerplexityMeter& meter, PplMeasured& measured) {
  Lane& lane = lanes_[static_cast<std::size_t>(stream)];
  const Session& session = batch_.session(stream);
  add_text_size(*lane.at, meter);
  if (carry_) measured.evicted = measured.ties_at_cut = measured.quantised_rows = 0;
  if (lane.at->segment.prompt == 0) measured.kept.push_back(session.cache().mean_length());
  measured.evicted += session.evicted_entries();
  measured.ties_at_cut += session.ties_at_cut();
  measured.quantised_rows += session.cache().quantised_rows();
  measured.kv_bytes_peak = std::max(measured.kv_bytes_peak, session.cache().peak_live_bytes());
  measured.kv_bytes_peak_allocated =
      std::max(measured.kv_bytes_peak_allocated, session.cache().peak_allocated_bytes());
  if (lane.at->number > last_finished_) {
    last_finished_ = lane.at->number;
    note_cache(session, measured);
  }
  lane.at.reset();
}

void PplScorer::add_text_size(const TextSegment& segment, PerplexityMeter& meter) {
  const Tokenizer* tokenizer = setting_.source.tokenizer.get();
  if (tokenizer == nullptr) return;
  const auto scored =
      std::span<const std::int32_t>(segment.segment.ids).subspan(segment.segment.first_scored);
  TextSize& size = sizes_[segment.document];
  for (const std::int32_t id : scored) {
    size.bytes += static_cast<std::int64_t>(tokenizer->token_bytes(id).size());
  }
  size.words += count_words(tokenizer->decode(scored));
  meter.set_text_size(segment.document, size.bytes, size.words);
}

// At the end of the text's last segment.
void PplScorer::note_cache(const Session& session, PplMeasured& measured) const {
  const KvCache& cache = session.cache();
  measured.kv_bytes_live = cache.live_bytes();
  measured.kv_bytes_allocated = cache.allocated_bytes();
  measured.kv_bytes_full =
      session.tokens_fed() * setting_.model.config().kv_bytes_per_token(setting_.request.kv_dtype);
  measured.kv_rows.assign(static_cast<std::size_t>(cache.shape().n_layers), {});
  for (std::size_t layer = 0; layer < measured.kv_rows.size(); ++layer) {
    for (std::int64_t kv_head = 0; kv_head < cache.shape().n_kv_heads; ++kv_head) {
      measured.kv_rows[layer].push_back(cache.length(static_cast<std::int64_t>(layer), kv_head));
    }
  }
}

}  // namespace kvbench
