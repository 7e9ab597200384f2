// One policy's way through a text: the segments that a protocol cuts, fed and scored, some of them
// side by side.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "engine/stream_batch.hpp"
#include "metric/perplexity.hpp"
#include "model/model.hpp"
#include "policy/registry.hpp"
#include "report/progress.hpp"
#include "task/ppl.hpp"
#include "task/ppl_protocol.hpp"
#include "task/ppl_record.hpp"
#include "task/shared_prompts.hpp"
#include "task/token_source.hpp"

namespace kvbench {

// A segment and where it comes from.
struct TextSegment {
  Segment segment;
  std::size_t document = 0;  // index in the source, and in the meter
  std::int64_t number = 0;   // 0, 1, ... in the order of the text
  // Laid end to end: what stands before it that no other segment feeds (the last token of the
  // document before, which is context of this one, though no target of it).
  std::vector<std::int32_t> lead = {};
};

// The segments of all documents, in order. Those without a second token are left out.
class TextSegments {
 public:
  TextSegments(const TokenSource& source, const PplProtocol& protocol, const PplRequest& request)
      : source_(source), protocol_(protocol), request_(request) {}
  std::optional<TextSegment> next();

 private:
  const TokenSource& source_;
  const PplProtocol& protocol_;
  const PplRequest& request_;
  std::size_t document_ = 0;
  std::vector<Segment> segments_;  // of the document before that one
  std::size_t segment_ = 0;
  std::int64_t number_ = 0;
  std::vector<std::int32_t> lead_;
};

// Losses of segments that run side by side, passed on in the order of the text.
class OrderedLosses {
 public:
  explicit OrderedLosses(PerplexityMeter& meter) : meter_(meter) {}
  // Segments begin in order.
  void begin(const TextSegment& segment);
  // Of the tokens from ids[first] of the segment on.
  void add(const TextSegment& segment, std::size_t first, std::span<const double> nll);
  void end(const TextSegment& segment);

 private:
  struct Run {
    std::size_t document;
    std::int64_t first_position;
    std::vector<double> nll;  // that wait for the segments before this one
    bool ended = false;
  };
  void pass_on(Run& run);

  PerplexityMeter& meter_;
  std::deque<Run> runs_;
  std::int64_t first_ = 0;  // number of the front
};

// What the policies of a run have in common.
struct PplSetting {
  const PplRequest& request;
  const PplProtocol& protocol;
  const TokenSource& source;
  const Model& model;
  Backend& backend;
  SharedPrompts& prompts;
};

class PplScorer {
 public:
  // What the setting refers to must outlive it.
  PplScorer(const PplSetting& setting, const ConfiguredPolicy& configured);

  void run(PerplexityMeter& meter, PplMeasured& measured, Progress& progress);

 private:
  // A stream's place in its segment.
  struct Lane {
    std::optional<TextSegment> at;  // none: idle
    std::size_t fed = 0;
    std::vector<double> nll;  // of the turn
  };

  void start(std::int64_t stream, PplMeasured& measured);
  void run_prompt(Session& session, std::span<const std::int32_t> ids, std::size_t length,
                  PplMeasured& measured);
  StreamBatch::Turn turn(std::int64_t stream);
  void finish(std::int64_t stream, PerplexityMeter& meter, PplMeasured& measured);
  void add_text_size(const TextSegment& segment, PerplexityMeter& meter);
  void note_cache(const Session& session, PplMeasured& measured) const;

  PplSetting setting_;
  bool carry_;
  StreamBatch batch_;
  TextSegments segments_;
  std::vector<Lane> lanes_;  // [streams]
  struct TextSize {
    std::int64_t bytes = 0;
    std::int64_t words = 0;
  };
  std::vector<TextSize> sizes_;      // [documents], of what was scored
  std::int64_t last_finished_ = -1;  // number of a segment
};

}  // namespace kvbench
