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
  return {std::vector<std::int32_t>(part.begin(), part.end()),
          std::max<std::size_t>(first_scored - begin, 1), static_cast<std::int64_t>(begin)};
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
    {"stream", "one continuous stream, every token but the first scored", false, cut_stream},
    {"strided", "windows of --window tokens every --stride, each token scored once", true,
     cut_strided},
    {"rolling", "windows with one token of context, every token scored (lm-evaluation-harness)",
     true, cut_rolling},
    {"llamacpp", "chunks of --window, second halves scored, the tail dropped (llama.cpp)", true,
     cut_llamacpp},
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
    if (options.stride > options.window) {
      config_error("--stride {}: expected at most --window {}, else tokens are left out",
                   options.stride, options.window);
    }
    return protocol;
  }
  config_error("unknown protocol '{}'; known: {}", name, known);
}

}  // namespace kvbench
