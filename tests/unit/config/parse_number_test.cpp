// Strict numbers, the identity of configurations, and both under a locale with a decimal comma.
#include "config/parse_number.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "config/config_hash.hpp"
#include "core/error.hpp"
#include "tests/support/comma_locale.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

TEST_CASE("parse_number: integers are decimal, whole and inside the range") {
  CHECK(parse_int("0", 0, 10, "n") == 0);
  CHECK(parse_int("-3", -5, 10, "n") == -3);
  CHECK(parse_int("9223372036854775807", 0, kLargest, "n") == kLargest);
  for (const char* bad : {"", " ", "010", "00", "-0", "+5", "1e3", "5.0", "0x8", " 5", "5 ", "five",
                          "9223372036854775808", "--1", "1_000", "1,000"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_int(bad, -10, kLargest, "n"), ConfigError);
  }
  CHECK_THROWS_WITH_AS(parse_int("2147483648", 0, 2147483647, "--budget"),
                       "--budget: \"2147483648\" is not an integer from 0 to 2147483647",
                       ConfigError);
}

TEST_CASE("parse_number: unsigned integers do not wrap") {
  CHECK(parse_uint64("18446744073709551615", "seed") == 18446744073709551615ULL);
  for (const char* bad : {"-1", "18446744073709551616", "", "010", "1e3"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_uint64(bad, "seed"), ConfigError);
  }
}

TEST_CASE("parse_number: reals are finite, with a decimal point, in any locale") {
  const auto check_all = [] {
    CHECK(parse_real("0.5", 0, 1, "ratio") == 0.5);
    CHECK(parse_real("2.5e-1", 0, 1, "ratio") == 0.25);
    for (const char* bad : {"", "nan", "inf", "-inf", "0,5", "0.5x", "1.5", "-0.1", "1e400"}) {
      CAPTURE(bad);
      CHECK_THROWS_AS(parse_real(bad, 0, 1, "ratio"), ConfigError);
    }
  };
  check_all();
  const test::CommaLocale comma;
  check_all();
  CHECK(canonical_json({{"ratio", 0.5}, {"n", 1234567}}) == R"({"n":1234567,"ratio":0.5})");
}

TEST_CASE("parse_number: lists of integers") {
  CHECK(parse_int_list("1,2,3", 0, 9, "ids") == std::vector<std::int64_t>{1, 2, 3});
  CHECK(parse_int_list("7", 0, 9, "ids") == std::vector<std::int64_t>{7});
  for (const char* bad : {"", ",", "1,", ",1", "1,,2", "1, 2", "1;2", "10"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_int_list(bad, 0, 9, "ids"), ConfigError);
  }
}

TEST_CASE("config_hash: order of keys and blanks do not count, types and values do") {
  const std::string base = config_hash_of_text(R"({"a":1,"b":{"c":0.5,"d":[1,2]}})");
  CHECK(base.size() == 64);
  CHECK(config_hash_of_text("{ \"b\": {\"d\":[1,2], \"c\":0.5},\r\n \"a\":1 }") == base);
  for (const char* other :
       {R"({"a":"1","b":{"c":0.5,"d":[1,2]}})", R"({"a":1,"b":{"c":0.5,"d":[2,1]}})",
        R"({"a":1,"b":{"c":0.25,"d":[1,2]}})", R"({"a":null,"b":{"c":0.5,"d":[1,2]}})"}) {
    CAPTURE(other);
    CHECK(config_hash_of_text(other) != base);
  }
  CHECK(config_hash(nlohmann::json{{"x", "a/b_c"}}) != config_hash(nlohmann::json{{"x", "a_b/c"}}));
  CHECK(canonical_json({{"z", 1}, {"a", "\xff"}}) == "{\"a\":\"\xEF\xBF\xBD\",\"z\":1}");
  CHECK_THROWS_AS(config_hash_of_text("{"), ConfigError);
}

}  // namespace
}  // namespace kvbench
