// The strict JSON parser: what it must refuse, where it says so, and how fast.
#include "io/json_file.hpp"

#include <doctest/doctest.h>
#include <pthread.h>

#include <clocale>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/support/cpu_time.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using std::string_literals::operator""s;
using test::contains;
using test::error_text;

std::string error_of(const std::string& text, const JsonOptions& options = {}) {
  return error_text<DataError>([&] { parse_json(text, "some.json", options); });
}

TEST_CASE("well-formed documents come through unchanged") {
  const std::string text =
      R"( {"a":[1,-2,3.5,1e2,true,false,null,"x\u00e9\ud83d\ude00"],"b":{"c":{},"d":[]},"":0} )";
  CHECK(parse_json(text, "some.json") == json::parse(text));
  CHECK(parse_json("7", "some.json") == 7);
  CHECK(parse_json("\"\\u0000\"", "some.json") == json("\0"s));
  CHECK(parse_json("{\r\n \"a\":1\r\n}\r\n", "some.json") == json{{"a", 1}});
  CHECK(parse_json("18446744073709551615", "some.json").is_number_unsigned());
  CHECK(parse_json("-9223372036854775808", "some.json").get<std::int64_t>() == INT64_MIN);
}

TEST_CASE("a key given twice is an error that names it and its place") {
  CHECK(error_of(R"({"a":1,"a":2})") == "some.json: line 1, column 10: duplicate key a");
  CHECK(error_of("{\"x\":[{\"y\":0,\n \"y\":0}]}") ==
        "some.json: line 2, column 4: duplicate key y");
  CHECK(contains(error_of(R"({"window":1,"w\u0069ndow":2})"), "duplicate key window"));
  CHECK(parse_json(R"([{"a":1},{"a":{"a":2}}])", "some.json")[1]["a"]["a"] == 2);
}

TEST_CASE("text that is nearly JSON is an error with line and column") {
  struct Row {
    std::string text;
    std::string place;
  };
  const std::vector<Row> rows = {{"", "line 1, column 1"},
                                 {"  \n ", "line 2, column 1"},
                                 {"{\"a\":1}\n{\"b\":2}", "line 2, column 1"},
                                 {"{\"a\":1} x", "line 1, column 9"},
                                 {"{\"a\":1,}", "line 1, column 8"},
                                 {"[1,]", "line 1, column 4"},
                                 {"{//x\n\"a\":1}", "line 1, column 2"},
                                 {"{/*x*/\"a\":1}", "line 1, column 2"},
                                 {"{\"a\":NaN}", "line 1, column 6"},
                                 {"{\"a\":-Infinity}", "line 1, column 7"},
                                 {"{\"a\":1e400}", "line 1, column"},
                                 {"{\"a\":-1e999}", "line 1, column"},
                                 {"{\"ratio\":0,5}", "line 1, column"},
                                 {"{\"a\":01}", "line 1, column"},
                                 {"{\"a\":+1}", "line 1, column 6"},
                                 {"{\"a\":.5}", "line 1, column 6"},
                                 {"{'a':1}", "line 1, column 2"},
                                 {"{a:1}", "line 1, column 2"},
                                 {"{\"a\" 1}", "line 1, column 7"},
                                 {"{\"a\":", "line 1, column 5"},
                                 {"\"abc", "line 1, column 4"},
                                 {"\"a\tb\"", "line 1, column 3"},
                                 {"\"\\ud800\"", "line 1, column"},
                                 {"nul", "line 1, column 3"},
                                 {"\"a\xFFz\"", "line 1, column 3"},
                                 {"\"\xC0\xAF\"", "line 1, column 2"},
                                 {"\"\xED\xA0\x80\"", "line 1, column"},
                                 {"{\"é\":x}", "line 1, column 6"}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const std::string message = error_of(row.text);
    CAPTURE(message);
    CHECK(contains(message, "some.json: " + row.place));
    CHECK_FALSE(contains(message, "\n"));
    CHECK_FALSE(contains(message, "json.exception"));
  }
}

TEST_CASE("NUL bytes do not end the text") {
  CHECK(contains(error_of("{\"a\":1}\n\0\0"s), "line 2, column 1: NUL"));
  CHECK(contains(error_of("{\"a\":\0 1}"s), "column 6: NUL"));
  CHECK(contains(error_of("{\0\"\0a\0"s), "UTF-16"));
}

TEST_CASE("one byte order mark where allowed, none elsewhere") {
  const JsonOptions with_bom{.allow_bom = true};
  CHECK(parse_json("\xEF\xBB\xBF{\"a\":1}", "some.json", with_bom) == json{{"a", 1}});
  CHECK(contains(error_of("\xEF\xBB\xBF{}"), "BOM"));
  CHECK(contains(error_of("\xEF\xBB\xBF\xEF\xBB\xBF{}", with_bom), "BOM"));
  CHECK(contains(error_of("{}\xEF\xBB\xBF", with_bom), "line 1, column 3"));
  CHECK(contains(error_of("\xFF\xFE{\0}\0"s, with_bom), "UTF-16"));
  CHECK(contains(error_of("\xFE\xFF\0{\0}"s, with_bom), "UTF-16"));
}

TEST_CASE("nesting is bounded") {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(parse_json(nested(64), "some.json").is_array());
  CHECK(contains(error_of(nested(65)), "nested deeper than 64 levels"));
  CHECK(contains(error_of(nested(3), {.max_depth = 2}), "nested deeper than 2 levels"));
  std::string objects;
  for (int i = 0; i < 65; ++i) objects += "{\"a\":";
  CHECK(contains(error_of(objects), "nested deeper"));
}

TEST_CASE("long arrays can be refused") {
  const JsonOptions options{.max_array_length = 3};
  CHECK(parse_json("[1,2,3]", "some.json", options).size() == 3);
  CHECK(contains(error_of("[1,2,[],4]", options), "array of more than 3 elements"));
}

TEST_CASE("deep nesting costs neither stack nor time") {
  static const std::string text(200000, '[');
  static std::string message;
  const auto parse = [](void*) -> void* {
    message = error_of(text);
    return nullptr;
  };
  pthread_attr_t small_stack;
  REQUIRE(pthread_attr_init(&small_stack) == 0);
  REQUIRE(pthread_attr_setstacksize(&small_stack, 1 << 20) == 0);
  pthread_t thread;
  const double start = test::thread_cpu_seconds();
  REQUIRE(pthread_create(&thread, &small_stack, parse, nullptr) == 0);
  REQUIRE(pthread_join(thread, nullptr) == 0);
  CHECK(test::thread_cpu_seconds() - start < 1.0);
  CHECK(contains(message, "nested deeper"));
}

TEST_CASE("a message about a huge string is short") {
  const std::string message = error_of("\"" + std::string(1000000, 'x') + "\xFF\"");
  CHECK(contains(message, "column 1000002"));
  CHECK(message.size() < 500);
}

TEST_CASE("time grows with the length of the text, not its square") {
  const auto seconds = [](int members) {
    std::string text = "{";
    for (int i = 0; i < members; ++i) text += fmt::format("\"token{}\":{},", i, i);
    text += "\"last\":0}";
    const double start = test::thread_cpu_seconds();
    CHECK(parse_json(text, "some.json").size() == static_cast<std::size_t>(members) + 1);
    return test::thread_cpu_seconds() - start;
  };
  seconds(10000);  // warms the allocator
  CHECK(seconds(200000) < 80 * seconds(10000) + 0.5);
}

TEST_CASE("the decimal point does not depend on the locale") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"}) {
    if (std::setlocale(LC_ALL, name) != nullptr) break;
  }
  const json value = parse_json("0.5", "some.json");
  std::setlocale(LC_ALL, before.c_str());
  CHECK(value == 0.5);
}

TEST_CASE("files: the message has the path, the type is the caller's choice") {
  const test::TempDir dir;
  const auto good = dir.write("good.json", "\xEF\xBB\xBF{\"a\":1}");
  const auto bad = dir.write("bad.json", "{\"a\":1,}");
  CHECK(read_json_file(good, {.allow_bom = true}) == json{{"a", 1}});
  CHECK(contains(error_text<DataError>([&] { read_json_file(bad); }), "bad.json: line 1"));
  const JsonOptions config{.errors = JsonErrors::config};
  CHECK(contains(error_text<ConfigError>([&] { read_json_file(bad, config); }), "bad.json"));
  const auto absent = dir.path() / "absent.json";
  CHECK(contains(error_text<DataError>([&] { read_json_file(absent); }), "absent.json"));
  CHECK(contains(error_text<ConfigError>([&] { read_json_file(absent, config); }), "absent.json"));
  const auto empty = dir.write("empty.json", "");
  CHECK(contains(error_text<DataError>([&] { read_json_file(empty); }), "line 1, column 1"));
}

}  // namespace
}  // namespace kvbench
