// How each protocol cuts a document: which tokens are context, which are scored, and where.
#include "task/ppl_protocol.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;

// Ids that are their own positions, from 100 on.
Ids document(std::int64_t n) {
  Ids ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 100);
  return ids;
}

std::vector<Segment> cut(const char* name, std::int64_t n, const ProtocolOptions& options) {
  return find_ppl_protocol(name, options).cut(document(n), options);
}

// Ids of the scored tokens, in the order in which they are scored.
Ids scored(const std::vector<Segment>& segments) {
  Ids ids;
  for (const Segment& segment : segments) {
    for (std::size_t i = segment.first_scored; i < segment.ids.size(); ++i) {
      ids.push_back(segment.ids[i]);
      // A token's place in the document is that of its segment and its index.
      CHECK(segment.first_position + static_cast<std::int64_t>(i) + 100 == segment.ids[i]);
    }
  }
  return ids;
}

Ids all_but_first(std::int64_t n) {
  const Ids ids = document(n);
  return n < 2 ? Ids{} : Ids(ids.begin() + 1, ids.end());
}

TEST_CASE("stream: one segment, all but the first token") {
  for (const std::int64_t n : {0, 1, 2, 40}) {
    CHECK(scored(cut("stream", n, {})) == all_but_first(n));
    CHECK(cut("stream", n, {}).size() <= 1);
  }
}

TEST_CASE("strided: overlapping windows score each token once, with all context they can") {
  for (const std::int64_t window : {2, 5, 16, 40, 100}) {
    for (const std::int64_t stride : {1, 2, 5, 8, 16, 40}) {
      if (stride >= window) continue;
      for (const std::int64_t n : {0, 1, 2, 5, 15, 16, 17, 40}) {
        CAPTURE(window);
        CAPTURE(stride);
        CAPTURE(n);
        const auto segments = cut("strided", n, {.window = window, .stride = stride});
        CHECK(scored(segments) == all_but_first(n));
        for (const Segment& segment : segments) {
          CHECK(static_cast<std::int64_t>(segment.ids.size()) <= window);
        }
      }
    }
  }
}

TEST_CASE("strided: windows side by side leave each window's first token unscored") {
  const auto segments = cut("strided", 40, {.window = 16});
  CHECK(segments.size() == 3);
  const Ids found = scored(segments);
  CHECK(found.size() == 37);
  const std::set<std::int32_t> ids(found.begin(), found.end());
  for (const std::int32_t first : {100, 116, 132}) CHECK(ids.count(first) == 0);
}

TEST_CASE("continue: prompts and the tokens scored on what is left of them") {
  const auto segments = cut("continue", 30, {.prompt = 5, .score = 3});
  REQUIRE(segments.size() == 3);
  for (const Segment& segment : segments) {
    CHECK(segment.prompt == 5);
    CHECK(segment.first_scored == 6);
  }
  CHECK(scored(segments) == Ids{106, 107, 108, 114, 115, 116, 122, 123, 124});
  // A rest of a prompt and two more tokens has one that is scored; one token less has none.
  CHECK(scored(cut("continue", 7, {.prompt = 5, .score = 3})) == Ids{106});
  CHECK(cut("continue", 6, {.prompt = 5, .score = 3}).empty());
  CHECK(cut("continue", 0, {.prompt = 5, .score = 3}).empty());
}

TEST_CASE("rolling: every token is scored, the first one after the prefix") {
  for (const std::int64_t window : {2, 3, 16, 100}) {
    for (const std::int64_t n : {0, 1, 2, 16, 17, 40}) {
      CAPTURE(window);
      CAPTURE(n);
      const auto segments = cut("rolling", n, {.window = window, .prefix_id = 7});
      CHECK(scored(segments) == document(n));
      for (std::size_t i = 0; i < segments.size(); ++i) {
        CHECK(static_cast<std::int64_t>(segments[i].ids.size()) <= window + 1);
        CHECK(segments[i].first_scored == 1);
        CHECK(segments[i].ids.front() == (i == 0 ? 7 : segments[i - 1].ids.back()));
      }
    }
  }
}

TEST_CASE("llamacpp: second halves of whole chunks, the tail dropped") {
  const auto segments = cut("llamacpp", 40, {.window = 16});
  CHECK(segments.size() == 2);
  CHECK(scored(segments) ==
        Ids{109, 110, 111, 112, 113, 114, 115, 125, 126, 127, 128, 129, 130, 131});
  const auto forced = cut("llamacpp", 40, {.window = 16, .prefix_id = 7, .force_prefix = true});
  for (const Segment& segment : forced) CHECK(segment.ids.front() == 7);
  CHECK(cut("llamacpp", 15, {.window = 16}).empty());
}

TEST_CASE("options that do not go with a protocol") {
  const auto fault = [](const char* name, const ProtocolOptions& options) {
    return test::error_text<ConfigError>([&] { find_ppl_protocol(name, options); });
  };
  CHECK(test::contains(fault("streem", {}), "streem"));
  CHECK(test::contains(fault("strided", {}), "--window"));
  CHECK(test::contains(fault("strided", {.window = 1}), "--window"));
  CHECK(test::contains(fault("strided", {.window = 8, .stride = 9}), "--stride"));
  CHECK(test::contains(fault("continue", {}), "--prompt"));
  CHECK(test::contains(fault("continue", {.prompt = 4}), "--score"));
  CHECK(test::contains(fault("stream", {.prompt = 4, .score = 4}), "--prompt"));
  CHECK(test::contains(fault("stream", {.window = 8}), "--window"));
}

}  // namespace
}  // namespace kvbench
