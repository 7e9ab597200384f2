// Policy strings and their JSON forms taken apart; what is no policy is refused with a reason.
#include "config/policy_spec.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using Options = std::vector<std::pair<std::string, std::string>>;

PolicySpec from_json(const std::string& text) {
  return parse_policy(json::parse(text), "sweep.json");
}

std::string fault(const std::string& text) {
  return test::error_text<ConfigError>([&] { parse_policy(text); });
}

std::string json_fault(const std::string& text) {
  return test::error_text<ConfigError>([&] { from_json(text); });
}

TEST_CASE("short forms") {
  CHECK(parse_policy("full").name == "full");
  CHECK(parse_policy("full").options.empty());
  CHECK(parse_policy("window1024").name == "window");
  CHECK(parse_policy("window1024").options == Options{{"capacity", "1024"}});
  CHECK(parse_policy("sink4+1020").name == "sink");
  CHECK(parse_policy("sink4+1020").options == Options{{"sinks", "4"}, {"recent", "1020"}});
  CHECK(parse_policy("recompute256").options == Options{{"length", "256"}});
  CHECK(parse_policy("sink4+1020").text == "sink4+1020");
}

TEST_CASE("keys, alone and after a short form, in the order given") {
  const PolicySpec plain = parse_policy("snapkv:capacity=1024,window=32,pool=max");
  CHECK(plain.name == "snapkv");
  CHECK(plain.options == Options{{"capacity", "1024"}, {"window", "32"}, {"pool", "max"}});
  const PolicySpec after = parse_policy("sink4+8:positions=original");
  CHECK(after.options == Options{{"sinks", "4"}, {"recent", "8"}, {"positions", "original"}});
  CHECK(parse_policy("x:file=a=b").options == Options{{"file", "a=b"}});
}

TEST_CASE("names with a digit inside are names") {
  CHECK(parse_policy("h2o:capacity=4").name == "h2o");
  CHECK(parse_policy("h2o").name == "h2o");
}

TEST_CASE("what is no policy") {
  for (const std::string text :
       {"", ":", ":a=1", "Window8", "window 8", "sink4+", "sink+8", "sink4+8+1",
        "window8:", "window8:sinks", "window8:sinks=", "window8:=1", "window8:a=1,",
        "window8:a=1,,b=2", "window-1", "sink5+-1", "window8\r", "sink4.0+8"}) {
    CAPTURE(text);
    CHECK(fault(text) != "no error");
    CHECK(test::contains(fault(text), "'" + text + "'"));
  }
}

TEST_CASE("a key given twice names itself") {
  CHECK(test::contains(fault("sink4+8:sinks=2"), "sinks is given twice"));
  CHECK(test::contains(fault("h2o:a=1,a=1"), "key a is given twice"));
  CHECK(test::contains(json_fault(R"({"name": "window8", "capacity": 9})"), "given twice"));
}

TEST_CASE("JSON: a string, or an object whose values are strings, numbers or booleans") {
  CHECK(from_json(R"("sink4+8")").options == Options{{"sinks", "4"}, {"recent", "8"}});
  const PolicySpec spec =
      from_json(R"({"name": "x", "capacity": 10, "alpha": 0.25, "on": true, "pool": "max"})");
  CHECK(spec.name == "x");
  CHECK(spec.options ==
        Options{{"alpha", "0.25"}, {"capacity", "10"}, {"on", "true"}, {"pool", "max"}});
}

TEST_CASE("JSON: the text says the whole policy, and says it so that it can be read back") {
  for (const std::string text :
       {R"({"name": "window", "capacity": 8})", R"({"name": "sink4+8", "positions": "original"})",
        R"({"name": "window8"})", R"("window8:evict=before")"}) {
    CAPTURE(text);
    const PolicySpec spec = from_json(text);
    const PolicySpec again = parse_policy(spec.text);
    CHECK(again.name == spec.name);
    CHECK(again.options == spec.options);
  }
}

TEST_CASE("JSON: values of other kinds name file and key") {
  for (const std::string text :
       {"null", "8", "[]", "{}", R"({"name": 8})", R"({"name": null})",
        R"({"name": "x", "a": null})", R"({"name": "x", "a": [1]})", R"({"name": "x", "a": {}})",
        R"({"name": "x", "a": "8"})", R"({"name": "x", "a": "0.5"})",
        R"({"name": "x", "a": "true"})", R"({"name": "x", "a": "max,b=4"})"}) {
    CAPTURE(text);
    CHECK(test::contains(json_fault(text), "sweep.json: key policy"));
  }
}

}  // namespace
}  // namespace kvbench
