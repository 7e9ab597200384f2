// Command-line values that CLI11 alone would convert into something else without a word.
#include "apps/kvbench/options.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace kvbench {
namespace {

struct Parsed {
  std::int64_t n = 5;
  std::uint64_t seed = 1;
  double ratio = 1.0;
  std::string name = "none";
  std::string mode = "stream";
  std::vector<std::int64_t> ids;
  std::vector<double> depths;
  std::vector<std::string> policies;
  bool strict = false;
  int code = 0;
  std::string message;
};

Parsed parse(std::vector<std::string> arguments) {
  Parsed parsed;
  CLI::App app;
  SettingSet settings;
  settings.integer("n", parsed.n, 1, 2147483647, "a count");
  settings.seed("seed", parsed.seed, "a seed");
  settings.real("ratio", parsed.ratio, 0, 1, "a share");
  settings.text("name", parsed.name, "a name");
  settings.choice("run_mode", parsed.mode, {"stream", "continue"}, "a protocol");
  settings.integers("ids", parsed.ids, 0, 2147483647, "token ids");
  settings.reals("depths", parsed.depths, 0, 1, "shares");
  settings.texts("policy", parsed.policies, "POLICY", "each time one more");
  settings.flag("strict", parsed.strict, "no value");
  add_settings(app, settings);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    parsed.code = error.get_exit_code();
    parsed.message = error.what();
  }
  return parsed;
}

TEST_CASE("options: good values arrive, defaults stay") {
  const Parsed parsed =
      parse({"--n", "8", "--seed=18446744073709551615", "--ratio", "0.5", "--name", "x,y",
             "--run-mode", "continue", "--ids", "1,2,3", "--depths", "0,0.25", "--policy",
             "h2o:heavy=1,recent=2", "--policy", "full", "--strict"});
  CHECK(parsed.message == "");
  CHECK(parsed.n == 8);
  CHECK(parsed.seed == 18446744073709551615ULL);
  CHECK(parsed.ratio == 0.5);
  CHECK(parsed.name == "x,y");
  CHECK(parsed.mode == "continue");
  CHECK(parsed.ids == std::vector<std::int64_t>{1, 2, 3});
  CHECK(parsed.depths == std::vector<double>{0, 0.25});
  CHECK(parsed.policies == std::vector<std::string>{"h2o:heavy=1,recent=2", "full"});
  CHECK(parsed.strict);

  const Parsed defaults = parse({});
  CHECK(defaults.code == 0);
  CHECK(defaults.n == 5);
  CHECK(defaults.ids.empty());
}

TEST_CASE("options: what would be converted silently is an error that names the option") {
  const std::vector<std::vector<std::string>> bad{
      {"--seed", "-1"},     {"--seed=-1"},         {"--seed", "18446744073709551616"},
      {"--n", "010"},       {"--n", ""},           {"--n="},
      {"--n", "1e3"},       {"--n", "2147483648"}, {"--n", "0"},
      {"--ratio", "nan"},   {"--ratio", "0,5"},    {"--ratio", "1.5"},
      {"--ratio", "inf"},   {"--name", ""},        {"--run-mode", "strea"},
      {"--ids", "1,,2"},    {"--ids", "1 2"},      {"--ids", "2147483648"},
      {"--depths", "0.5,"}, {"--depths", "2"},     {"--policy", ""}};
  for (const auto& arguments : bad) {
    CAPTURE(arguments.front());
    CAPTURE(arguments.back());
    const Parsed parsed = parse(arguments);
    CHECK(parsed.code != 0);
    const std::string option = arguments.front().substr(0, arguments.front().find('='));
    CHECK(parsed.message.find(option) != std::string::npos);
  }
}

TEST_CASE("options: a scalar given twice is an error, and so is a value too many") {
  CHECK(parse({"--n", "8", "--n", "9"}).code != 0);
  CHECK(parse({"--ratio", "0.5", "--ratio", "0.5"}).code != 0);
  CHECK(parse({"--n", "8", "9"}).code != 0);
  CHECK(parse({"--n"}).code != 0);
}

}  // namespace
}  // namespace kvbench
