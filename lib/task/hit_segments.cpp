// What a hit-rate run reads: stretches of a text, or one stretch under several questions.
#include "core/error.hpp"
#include "task/hitrate.hpp"

namespace kvbench {
namespace {

HitSegment cut(const HitRateRequest& request, const TokenDocument& document, std::int64_t first) {
  HitSegment segment;
  segment.document = document.name;
  segment.first_token = first;
  segment.context = request.prompt;
  const auto at = document.ids.begin() + first;
  segment.prompt.assign(at, at + request.prompt);
  if (request.greedy) return segment;
  const auto steps = at + request.prompt;
  segment.inputs.assign(steps, steps + request.steps);
  segment.targets.assign(steps + 1, steps + 1 + request.steps);
  return segment;
}

std::vector<HitSegment> ask(const HitRateRequest& request, const TokenSource& source,
                            const HitSegment& context) {
  if (source.tokenizer == nullptr) {
    config_error("--question needs a text (--data): plain token ids have no tokenizer");
  }
  std::vector<HitSegment> asked;
  for (const std::string& question : request.questions) {
    const std::vector<std::int32_t> ids = source.tokenizer->encode(question, {}, nullptr);
    if (ids.empty()) config_error("--question: a question without tokens");
    asked.push_back(context);
    asked.back().prompt.insert(asked.back().prompt.end(), ids.begin(), ids.end());
  }
  return asked;
}

}  // namespace

std::vector<HitSegment> cut_segments(const HitRateRequest& request, const TokenSource& source) {
  const std::int64_t length = request.prompt + (request.greedy ? 0 : request.steps + 1);
  std::vector<HitSegment> segments;
  for (const TokenDocument& document : source.documents) {
    for (std::int64_t first = request.offset;
         first + length <= std::ssize(document.ids) && std::ssize(segments) < request.segments;
         first += length) {
      segments.push_back(cut(request, document, first));
    }
  }
  if (std::ssize(segments) < request.segments) {
    data_error(
        "{}: {} segments of {} tokens from token {} on, but {} were asked for ({} tokens in all)",
        source.name, segments.size(), length, request.offset, request.segments,
        source.total_tokens());
  }
  return request.questions.empty() ? segments : ask(request, source, segments.front());
}

}  // namespace kvbench
