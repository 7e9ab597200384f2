// The command line as such: help, listing, exit codes, numbers that are none.
#include <doctest/doctest.h>

#include <set>

#include "tests/program/program.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;
using test::fault_of;
using test::run_program;

// Names of the commands, as the program's own help lists them.
std::vector<std::string> command_names() {
  std::vector<std::string> names;
  bool in_list = false;
  for (const std::string& line : test::lines_of(run_program({"--help"}).out)) {
    const bool indented = line.size() > 2 && line[0] == ' ' && line[2] != ' ' && line[2] != '-';
    if (line == "Subcommands:") {
      in_list = true;
    } else if (in_list && indented) {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  return names;
}

TEST_CASE("every command has help with examples") {
  const auto names = command_names();
  CHECK(names.size() >= 5);
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto result = run_program({name, "--help"});
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
    CHECK(contains(result.out, "Example"));
    CHECK(contains(result.out, "kvbench " + name));
  }
}

TEST_CASE("version, no command, unknown commands and options") {
  CHECK(run_program({"--version"}).exit_code == 0);
  CHECK(run_program({}).exit_code == 2);
  CHECK(run_program({"perplexity"}).exit_code == 2);
  CHECK(run_program({"list", "--jason"}).exit_code == 2);
  CHECK(run_program({"ppl"}).exit_code == 2);
}

TEST_CASE("list names what the registries hold") {
  const auto text = run_program({"list"});
  const auto result = run_program({"list", "--json"});
  REQUIRE(result.exit_code == 0);
  const json all = json::parse(result.out);
  std::set<std::string> names;
  for (const json& policy : all["policies"]) {
    names.insert(policy["name"]);
    CHECK(contains(text.out, policy["usage"].get<std::string>()));
  }
  for (const char* name : {"full", "window", "sink", "recompute", "random"}) {
    CHECK(names.count(name) == 1);
  }
}

TEST_CASE("numbers: negative, too large, octal-looking, empty, not finite") {
  const std::string model = test::tiny_model("llama").string();
  const auto with = [&](const std::string& option, const std::string& value) {
    return fault_of(
        run_program({"ppl", "--model", model, "--ids", "1,5,9", "--policy", "full", option, value}),
        2);
  };
  for (const std::string value :
       {"-1", "18446744073709551616", "010", "", "nan", "1e3", "1.0", "+1", " 1", "0x10"}) {
    CAPTURE(value);
    CHECK(contains(with("--seed", value), "--seed"));
    CHECK(contains(with("--tokens", value), "--tokens"));
    CHECK(contains(with("--chunk", value), "--chunk"));
  }
  CHECK(contains(with("--chunk", "0"), "--chunk"));
  CHECK(contains(with("--chunk", "2147483648"), "--chunk"));
  CHECK(run_program({"ppl", "--model", model, "--ids", "1,5", "--policy", "full", "--seed", "8",
                     "--seed", "9"})
            .exit_code == 2);
  CHECK(run_program({"ppl", "--model", model, "--ids", "1,5", "--policy", "full", "--seed",
                     "18446744073709551615"})
            .exit_code == 0);
}

TEST_CASE("exit codes: 2 for the request, 3 for the data, one line each") {
  const std::string model = test::tiny_model("llama").string();
  const auto fault = [&](const std::vector<std::string>& more, int code) {
    std::vector<std::string> arguments = {"trace", "--model", model};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result = run_program(arguments);
    CHECK(result.out.empty());
    return fault_of(result, code);
  };
  CHECK(contains(fault({"--ids", "1,2", "--policy", "windw:capacity=8"}, 2), "windw"));
  CHECK(contains(fault({"--ids", "1,2", "--policy", "window8:sinks=2"}, 2),
                 "sinks is not used by policy window"));
  CHECK(contains(fault({"--ids", "1,2", "--policy", "sink4+8:kernal=1"}, 2), "kernal"));
  CHECK(contains(fault({"--ids", "1,2", "--policy", "window0"}, 2), "use policy full"));
  CHECK(contains(fault({"--ids", "1,2", "--policy", "sink4+0"}, 2), "exceed"));
  CHECK(contains(fault({"--ids", "1,-1"}, 2), "-1"));
  CHECK(contains(fault({"--ids", "1,x"}, 2), "x"));
  CHECK(contains(fault({"--ids", "1,32"}, 3), "token id 32 outside 0..31"));
  CHECK(fault({}, 2) != "");
  CHECK(run_program({"trace", "--model", model, "--ids", "1,31"}).exit_code == 0);
  CHECK(contains(fault_of(run_program({"trace", "--model", "/no/such/model", "--ids", "1"}), 3),
                 "/no/such/model"));
}

TEST_CASE("devices: exit code 4 where there is none, 2 for a list that makes no sense") {
  const auto fault = [&](const std::vector<std::string>& more, int code) {
    std::vector<std::string> arguments = {"trace", "--model", test::tiny_model("llama").string(),
                                          "--ids", "1,5"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return fault_of(run_program(arguments), code);
  };
  CHECK(contains(fault({"--backend", "cpu", "--device", "3"}, 4),
                 "device 3 was asked for, but backend cpu has no devices"));
  CHECK(contains(fault({"--backend", "cpu", "--devices", "0,1"}, 4), "device 0 was asked for"));
  CHECK(contains(fault({"--devices", "1,0,1"}, 2), "device 1 is named twice"));
  CHECK(contains(fault({"--device", "1", "--devices", "0,1"}, 2), "give one of them"));
  CHECK(contains(fault({"--device", "-1"}, 2), "-1"));
}

}  // namespace
}  // namespace kvbench
