// The table of policies and the check of their options, for every row that there is.
#include "policy/registry.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

std::string fault(const std::string& text) {
  return test::error_text<ConfigError>([&] { make_policy(text); });
}

TEST_CASE("every row can be listed, and its usage builds it") {
  std::set<std::string> names;
  for (const PolicyInfo& info : policies()) {
    CAPTURE(info.name);
    CHECK(names.insert(std::string(info.name)).second);
    CHECK(!info.summary.empty());
    CHECK(info.summary.find('\n') == std::string_view::npos);
    CHECK(!info.source.empty());
    for (const PolicyOption& option : info.options) {
      CAPTURE(option.key);
      CHECK(!option.summary.empty());
      CHECK((option.kind == OptionKind::choice) == !option.choices.empty());
      CHECK((option.kind == OptionKind::choice || option.min <= option.max));
    }
    if (info.needs_file) continue;
    const ConfiguredPolicy configured = make_policy(info.usage);
    CHECK(configured.name == info.name);
    CHECK(configured.text == info.usage);
    // Policies over a scorer have that one's keys too.
    CHECK(configured.options.size() >= info.options.size());
    CHECK((info.make_over != nullptr || configured.options.size() == info.options.size()));
    CHECK((info.make == nullptr) == (info.make_over != nullptr));
    CHECK(configured.policy->traits().capacity > 0);
  }
}

// A wrong letter in a key or a value must not leave the default in place.
TEST_CASE("every row refuses unknown keys and values outside the range of each key") {
  for (const PolicyInfo& info : policies()) {
    CAPTURE(info.name);
    const std::string separator = info.usage.find(':') == std::string_view::npos ? ":" : ",";
    const std::string usage(info.usage);
    CHECK(test::contains(fault(usage + separator + "zzz=1"), "zzz"));
    const PolicySpec base = parse_policy(info.usage);
    if (info.needs_file) continue;
    for (const PolicyOption& option : info.options) {
      CAPTURE(option.key);
      std::vector<std::string> wrong = {"none of these", "1e999", "nan", ""};
      if (option.kind == OptionKind::integer)
        wrong.insert(wrong.end(), {"1.5", "-1000000001", "4294967304000"});
      if (option.kind == OptionKind::real) wrong.insert(wrong.end(), {"0,5", "inf"});
      for (const std::string& value : wrong) {
        CAPTURE(value);
        PolicySpec spec = base;
        std::erase_if(spec.options, [&](const auto& pair) { return pair.first == option.key; });
        spec.options.emplace_back(option.key, value);
        CHECK_THROWS_AS(make_policy(spec), ConfigError);
      }
    }
  }
}

TEST_CASE("unknown names and keys suggest the nearest one") {
  CHECK(test::contains(fault("windw8"), "windw8"));
  CHECK(test::contains(fault("window1e3"), "unknown policy 'window1e3'"));
  CHECK(test::contains(fault("windw:capacity=8"), "did you mean window?"));
  CHECK(test::contains(fault("sink4+8:positons=original"), "did you mean positions?"));
  CHECK(test::contains(fault("window8:sinks=2"), "key sinks is not used by policy window"));
  CHECK(test::contains(fault("sink4+8:kernal=1"), "key kernal is not used by policy sink"));
  CHECK(test::contains(fault("random"), "exactly one of capacity"));
  CHECK(test::contains(fault("h2o:recent=4"), "heavy is missing"));
}

TEST_CASE("a budget must exceed the sinks") {
  CHECK(test::contains(fault("sink4+0"), "exceed"));
  CHECK(test::contains(fault("window0"), "use policy full"));
  CHECK(make_policy("sink0+8").policy->traits().capacity == 8);
  CHECK(make_policy("sink4+1").policy->traits().capacity == 5);
}

TEST_CASE("all options are in the record, given or not") {
  const ConfiguredPolicy policy = make_policy("sink4+8:evict=before");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"sinks", "4"},       {"recent", "8"},     {"sink_tokens", "first"},
      {"newline_id", "-1"}, {"evict", "before"}, {"positions", "cache_index"}};
  CHECK(policy.options == expected);
}

}  // namespace
}  // namespace kvbench
