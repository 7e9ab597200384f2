// Typed members: no conversion may pass in silence.
#include "io/json_reader.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;
using test::error_text;

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

// One document with its reader.
struct Fixture {
  json document;
  JsonReader reader;
  explicit Fixture(const std::string& text, NullRule nulls = NullRule::refuse)
      : document(parse_json(text, "run.json")),
        reader(document, "run.json", JsonErrors::config, nulls) {}
};

TEST_CASE("what is no integer in range is refused with key, range and value") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"4294967304", "4294967304"},
      {"18446744073709551616", "18446744073709551616"},
      {"18446744073709551615", "18446744073709551615"},
      {"9223372036854775808", "9223372036854775808"},
      {"8.9", "8.9"},
      {"8.0", "8.0"},
      {"1e1", "10.0"},
      {"true", "true"},
      {"-1", "-1"},
      {"0", "0"},
      {"\"8\"", "the string \"8\""},
      {"null", "null"},
      {"[8]", "an array of 1"},
      {"{}", "an object"}};
  for (const auto& [text, found] : rows) {
    CAPTURE(text);
    const Fixture f("{\"window\":" + text + "}");
    const std::string message =
        error_text<ConfigError>([&] { f.reader.require_int("window", 1, 65536); });
    CAPTURE(message);
    CHECK(contains(message,
                   "run.json: key window: expected an integer from 1 to 65536, found " + found));
    CHECK(error_text<ConfigError>([&] { f.reader.optional_int("window", 1, 65536); }) == message);
  }
}

TEST_CASE("integers at the ends of their range") {
  const Fixture f(R"({"low":-9223372036854775808,"high":9223372036854775807,"eight":8})");
  CHECK(f.reader.require_int("low", kMin, kMax) == kMin);
  CHECK(f.reader.require_int("high", kMin, kMax) == kMax);
  CHECK(f.reader.require_int("eight", 8, 8) == 8);
  CHECK(f.reader.optional_int("eight", 0, kMax) == 8);
  CHECK_FALSE(f.reader.optional_int("nine", 0, kMax).has_value());
  CHECK(contains(error_text<ConfigError>([&] { f.reader.require_int("nine", 0, kMax); }),
                 "key nine: missing; expected an integer of at least 0"));
}

TEST_CASE("absent, null and value are told apart") {
  const std::string text = R"({"nothing":null,"some":4})";
  const Fixture strict(text);
  const Fixture lenient(text, NullRule::as_absent);
  for (const Fixture* f : {&strict, &lenient}) {
    CHECK(f->reader.presence("other") == Presence::absent);
    CHECK(f->reader.presence("nothing") == Presence::null);
    CHECK(f->reader.presence("some") == Presence::value);
    CHECK(f->reader.find("other") == nullptr);
    CHECK(f->reader.find("nothing")->is_null());
    CHECK_THROWS_AS(f->reader.require_int("nothing", 0, 9), ConfigError);
    CHECK_THROWS_AS(f->reader.require_object("nothing"), ConfigError);
  }
  CHECK_THROWS_AS(strict.reader.optional_int("nothing", 0, 9), ConfigError);
  CHECK_THROWS_AS(strict.reader.optional_double("nothing", 0, 9), ConfigError);
  CHECK_THROWS_AS(strict.reader.optional_bool("nothing"), ConfigError);
  CHECK_THROWS_AS(strict.reader.optional_string("nothing"), ConfigError);
  CHECK_THROWS_AS(strict.reader.optional_ints("nothing", 0, 9), ConfigError);
  CHECK_THROWS_AS(strict.reader.optional_int_or_ints("nothing", 0, 9), ConfigError);
  CHECK_THROWS_AS(strict.reader.optional_object("nothing"), ConfigError);
  CHECK_FALSE(lenient.reader.optional_int("nothing", 0, 9).has_value());
  CHECK_FALSE(lenient.reader.optional_double("nothing", 0, 9).has_value());
  CHECK_FALSE(lenient.reader.optional_bool("nothing").has_value());
  CHECK_FALSE(lenient.reader.optional_string("nothing").has_value());
  CHECK_FALSE(lenient.reader.optional_ints("nothing", 0, 9).has_value());
  CHECK_FALSE(lenient.reader.optional_int_or_ints("nothing", 0, 9).has_value());
  CHECK_FALSE(lenient.reader.optional_object("nothing").has_value());
}

TEST_CASE("numbers, booleans, strings") {
  const Fixture f(R"({"ratio":0.5,"whole":2,"yes":true,"no":0,"name":"tova","true":"true"})");
  CHECK(f.reader.require_double("ratio", 0, 1) == 0.5);
  CHECK(f.reader.require_double("whole", 0, 2) == 2.0);
  CHECK_FALSE(f.reader.optional_double("other", 0, 1).has_value());
  CHECK(contains(error_text<ConfigError>([&] { f.reader.require_double("whole", 0, 1); }),
                 "key whole: expected a number from 0 to 1, found 2"));
  CHECK_THROWS_AS(f.reader.require_double("yes", 0, 1), ConfigError);
  CHECK_THROWS_AS(f.reader.require_double("name", 0, 1), ConfigError);
  CHECK(f.reader.require_bool("yes"));
  CHECK_THROWS_AS(f.reader.require_bool("no"), ConfigError);
  CHECK_THROWS_AS(f.reader.optional_bool("true"), ConfigError);
  CHECK(f.reader.require_string("name") == "tova");
  CHECK(f.reader.optional_string("name") == "tova");
  CHECK_THROWS_AS(f.reader.require_string("yes"), ConfigError);
}

TEST_CASE("arrays of integers") {
  using Ints = std::vector<std::int64_t>;
  const Fixture f(R"({"list":[2,7,9],"one":2,"empty":[],"mixed":[1,2.5],"nested":[[1]]})");
  CHECK(f.reader.require_ints("list", 0, 9) == Ints{2, 7, 9});
  CHECK(f.reader.optional_ints("empty", 0, 9) == Ints{});
  CHECK(f.reader.optional_int_or_ints("one", 0, 9) == Ints{2});
  CHECK(f.reader.optional_int_or_ints("list", 0, 9) == Ints{2, 7, 9});
  CHECK_FALSE(f.reader.optional_int_or_ints("other", 0, 9).has_value());
  CHECK_THROWS_AS(f.reader.require_ints("one", 0, 9), ConfigError);
  CHECK(contains(error_text<ConfigError>([&] { f.reader.require_ints("mixed", 0, 9); }),
                 "key mixed[1]: expected an integer from 0 to 9, found 2.5"));
  CHECK(contains(error_text<ConfigError>([&] { f.reader.require_ints("list", 0, 8); }),
                 "key list[2]"));
  CHECK_THROWS_AS(f.reader.optional_int_or_ints("nested", 0, 9), ConfigError);
}

TEST_CASE("nested objects are named by their path") {
  const Fixture f(R"({"snapkv":{"kernal":5,"window":0,"deep":{"x":"1"}},"flat":3})");
  const JsonReader snapkv = f.reader.require_object("snapkv");
  CHECK(contains(error_text<ConfigError>([&] { snapkv.require_int("window", 1, 9); }),
                 "run.json: key snapkv.window: "));
  const auto deep = snapkv.optional_object("deep");
  REQUIRE(deep.has_value());
  CHECK(contains(error_text<ConfigError>([&] { deep->require_int("x", 1, 9); }),
                 "key snapkv.deep.x: "));
  CHECK(contains(error_text<ConfigError>([&] {
                   snapkv.reject_unknown_keys(std::vector<std::string>{"kernel", "window", "deep"});
                 }),
                 "run.json: unknown key snapkv.kernal (did you mean kernel?)"));
  CHECK_THROWS_AS(f.reader.require_object("flat"), ConfigError);
  CHECK_FALSE(f.reader.optional_object("other").has_value());
}

TEST_CASE("unknown keys are errors with the nearest or all valid keys") {
  const Fixture f(R"({"window":8,"windw":16})");
  const std::vector<std::string> allowed = {"model", "window"};
  CHECK(error_text<ConfigError>([&] { f.reader.reject_unknown_keys(allowed); }) ==
        "run.json: unknown key windw (did you mean window?)");
  const Fixture other(R"({"sinks":4})");
  CHECK(error_text<ConfigError>([&] { other.reader.reject_unknown_keys(allowed); }) ==
        "run.json: unknown key sinks (valid keys: model, window)");
  const Fixture fine(R"({"window":8})");
  fine.reader.reject_unknown_keys(allowed);
}

TEST_CASE("a document that is no object is refused, as the caller's kind of error") {
  for (const char* text : {"null", "[]", "7", "\"x\""}) {
    CAPTURE(text);
    const json document = json::parse(text);
    CHECK(contains(error_text<DataError>(
                       [&] { const JsonReader reader(document, "config.json", JsonErrors::data); }),
                   "config.json: expected a JSON object, found "));
    CHECK_THROWS_AS(JsonReader(document, "run.json", JsonErrors::config), ConfigError);
  }
}

}  // namespace
}  // namespace kvbench
