// The protocols: one row each, and the function that cuts.
#include "task/ppl_protocol.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"

namespace kvbench {
namespace {

using Ids = std::span<const std::int32_t>;

Segment make_segment(Ids ids, std::size_t begin, std::size_t end, std::size_t first_scored) {
  const Ids part = ids.subspan(begin, end - begin);
  Segment segment;
  segment.ids.assign(part.begin(), part.end());
  segment.first_scored = std::max<std::size_t>(first_scored - begin, 1);
  segment.first_position = static_cast<std::int64_t>(begin);
  return segment;
}

std::vector<Segment> cut_stream(Ids ids, const ProtocolOptions&) {
  return {make_segment(ids, 0, ids.size(), 1)};
}

// Overlapping windows; a token is scored in the first window that holds it, and only there.
std::vector<Segment> cut_strided(Ids ids, const ProtocolOptions& options) {
  const auto window = static_cast<std::size_t>(options.window);
  const auto stride =
      static_cast<std::size_t>(options.stride > 0 ? options.stride : options.window);
  std::vector<Segment> segments;
  std::size_t scored = 0;
  for (std::size_t begin = 0; scored < ids.size(); begin += stride) {
    const std::size_t end = std::min(begin + window, ids.size());
    segments.push_back(make_segment(ids, begin, end, scored));
    scored = end;
  }
  return segments;
}

// Prompts with their continuations, side by side. The token right behind a prompt is predicted
// before anything was evicted, so it is fed but not scored: all `score` tokens after it see the
// compressed cache. A rest without a scored token is left out.
std::vector<Segment> cut_continue(Ids ids, const ProtocolOptions& options) {
  const auto prompt = static_cast<std::size_t>(options.prompt);
  const auto step = prompt + static_cast<std::size_t>(options.score);
  std::vector<Segment> segments;
  for (std::size_t begin = 0; begin + prompt + 1 < ids.size(); begin += step) {
    const std::size_t end = std::min(begin + step + 1, ids.size());
    segments.push_back(make_segment(ids, begin, end, begin + prompt + 1));
    segments.back().prompt = prompt;
  }
  return segments;
}

// Every token is scored, the first one after the prefix; each window begins with the token before
// its first target (rolling log-likelihood with a context of one).
std::vector<Segment> cut_rolling(Ids ids, const ProtocolOptions& options) {
  std::vector<std::int32_t> all{options.prefix_id};
  all.insert(all.end(), ids.begin(), ids.end());
  const auto window = static_cast<std::size_t>(options.window);
  std::vector<Segment> segments;
  for (std::size_t scored = 1; scored < all.size();) {
    const std::size_t end = std::min(scored + window, all.size());
    Segment segment = make_segment(all, scored - 1, end, scored);
    segment.first_position -= 1;
    segments.push_back(std::move(segment));
    scored = end;
  }
  return segments;
}

// llama.cpp's perplexity: whole chunks only, each scored on its second half.
std::vector<Segment> cut_llamacpp(Ids ids, const ProtocolOptions& options) {
  const auto window = static_cast<std::size_t>(options.window);
  std::vector<Segment> segments;
  for (std::size_t begin = 0; begin + window <= ids.size(); begin += window) {
    Segment segment = make_segment(ids, begin, begin + window, begin + window / 2 + 1);
    if (options.force_prefix) segment.ids.front() = options.prefix_id;
    segments.push_back(std::move(segment));
  }
  return segments;
}

constexpr PplProtocol kProtocols[] = {
    {"stream", "one continuous stream, every token but the first scored", false, false, cut_stream},
    {"continue",
     "prompts of --prompt tokens, compressed, and --score tokens scored on what is left", false,
     true, cut_continue},
    {"strided", "windows of --window tokens every --stride, each token scored once", true, false,
     cut_strided},
    {"rolling", "windows with one token of context, every token scored (lm-evaluation-harness)",
     true, false, cut_rolling},
    {"llamacpp", "chunks of --window, second halves scored, the tail dropped (llama.cpp)", true,
     false, cut_llamacpp},
};

}  // namespace

std::span<const PplProtocol> ppl_protocols() {
  return kProtocols;
}

const PplProtocol& find_ppl_protocol(std::string_view name, const ProtocolOptions& options) {
  std::string known;
  for (const PplProtocol& protocol : kProtocols) {
    if (protocol.name != name) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", protocol.name);
      continue;
    }
    if (protocol.has_window && options.window < 2) {
      config_error("protocol {}: --window: expected at least 2 tokens, found {}", name,
                   options.window);
    }
    if (!protocol.has_window && (options.window != 0 || options.stride != 0)) {
      config_error("protocol {} has no windows: leave out --window and --stride", name);
    }
    if (protocol.has_prompt && (options.prompt < 1 || options.score < 1)) {
      config_error("protocol {}: give --prompt and --score, at least 1 token each", name);
    }
    if (!protocol.has_prompt && (options.prompt != 0 || options.score != 0)) {
      config_error("protocol {} has no prompts: leave out --prompt and --score", name);
    }
    if (options.stride > options.window) {
      config_error("--stride {}: expected at most --window {}, else tokens are left out",
                   options.stride, options.window);
    }
    return protocol;
  }
  config_error("unknown protocol '{}'; known: {}", name, known);
}

}  // namespace kvbench
