// Documents of ids as a task gets them: first tokens, limits, and a hash of what was read.
#include "task/token_source.hpp"

#include <doctest/doctest.h>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;

TokenSource read(const std::vector<Ids>& documents, const std::string& bos = "none",
                 std::int64_t max_tokens = 0) {
  TokenRequest request;
  request.ids = documents;
  request.bos = bos;
  request.max_tokens = max_tokens;
  return read_tokens(request, "no model is read");
}

TEST_CASE("ids as they are given; a first token where one is named") {
  const TokenSource plain = read({{5, 6}, {}, {7}});
  REQUIRE(plain.documents.size() == 3);
  CHECK(plain.documents[0].ids == Ids{5, 6});
  CHECK(plain.documents[1].ids.empty());
  CHECK(plain.bos == "none");
  CHECK(plain.total_tokens() == 3);
  CHECK(plain.tokenizer == nullptr);
  const TokenSource with_bos = read({{5, 6}, {7}}, "1");
  CHECK(with_bos.documents[0].ids == Ids{1, 5, 6});
  CHECK(with_bos.documents[1].ids == Ids{1, 7});
  CHECK(with_bos.bos == "1");
  for (const char* bos : {"-1", "x", "", "1.0", "2147483648"}) {
    CHECK_THROWS_AS(read({{5}}, bos), ConfigError);
  }
}

TEST_CASE("a limit counts over all documents, first tokens included") {
  const TokenSource three = read({{1, 2}, {3, 4}, {5, 6}}, "none", 3);
  REQUIRE(three.documents.size() == 2);
  CHECK(three.documents[1].ids == Ids{3});
  CHECK(three.total_tokens() == 3);
  const TokenSource exact = read({{1, 2}, {3, 4}}, "9", 3);
  REQUIRE(exact.documents.size() == 1);
  CHECK(exact.documents[0].ids == Ids{9, 1, 2});
}

TEST_CASE("the hash tells ids, their order and their documents apart") {
  const auto hash = [](const std::vector<Ids>& documents) { return read(documents).sha256; };
  CHECK(hash({{1, 2, 3}}) == hash({{1, 2, 3}}));
  CHECK(hash({{1, 2, 3}}) != hash({{1, 3, 2}}));
  CHECK(hash({{1, 2}, {3}}) != hash({{1, 2, 3}}));
  CHECK(hash({{1, 2}, {3}}) != hash({{1}, {2, 3}}));
  CHECK(hash({{}, {1}}) != hash({{1}, {}}));
}

TEST_CASE("nothing asked for is a fault of the request") {
  CHECK_THROWS_AS(read({}), ConfigError);
}

}  // namespace
}  // namespace kvbench
