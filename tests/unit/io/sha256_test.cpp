// SHA-256 against the examples published with FIPS 180-4.
#include "io/sha256.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "core/error.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kMillionA =
    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST_CASE("published examples") {
  CHECK(sha256_hex("abc") == kAbc);
  CHECK(sha256_hex("") == kEmpty);
  CHECK(sha256_hex(std::string(1000000, 'a')) == kMillionA);
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("pieces, moves, and use after the end") {
  Sha256 hash;
  hash.update("a");
  Sha256 moved = std::move(hash);
  moved.update("");
  moved.update("bc");
  CHECK(moved.hex() == kAbc);
  CHECK_THROWS_AS(moved.hex(), InternalError);
  CHECK_THROWS_AS(moved.update("d"), InternalError);
}

TEST_CASE("files, also longer than one chunk") {
  const test::TempDir dir;
  CHECK(sha256_file(dir.write("empty", "")) == kEmpty);
  CHECK(sha256_file(dir.write("abc", "abc")) == kAbc);
  const std::string long_text(40000001, 'z');
  CHECK(sha256_file(dir.write("long", long_text)) == sha256_hex(long_text));
  CHECK_THROWS_AS(sha256_file(dir.path() / "absent"), DataError);
}

}  // namespace
}  // namespace kvbench
