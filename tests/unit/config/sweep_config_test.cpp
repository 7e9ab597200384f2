// Sweep configurations: what lists, ranges and objects expand to, in which order, and what is
// refused with which words.
#include "config/sweep_config.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "config/sweep_axis.hpp"
#include "core/error.hpp"
#include "io/json_file.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;

// A task with a setting of every kind.
struct Fields {
  std::string model;
  std::string data;
  std::int64_t tokens = 0;
  double share = 0.5;
  bool strict = false;
  std::string mode = "a";
  std::vector<std::int64_t> lengths;
  std::vector<double> depths;
  std::vector<std::string> ids;
  std::vector<std::string> policies;
  SettingSet settings;

  Fields() {
    settings.text("model", model, "m").path = PathKind::file;
    settings.text("data", data, "d").path = PathKind::file_or_name;
    settings.integer("tokens", tokens, 0, 1000, "t");
    settings.real("share", share, 0, 1, "s");
    settings.flag("strict", strict, "f");
    settings.choice("mode", mode, {"a", "b"}, "c");
    settings.integers("lengths", lengths, 1, 4096, "l");
    settings.reals("depths", depths, 0, 1, "r");
    settings.texts("ids", ids, "ID", "i");
    settings.texts("policy", policies, "POLICY", "p");
  }
};

SweepConfig expand(const std::string& text) {
  static Fields first;
  static Fields second;
  static std::uint64_t extra = 0;
  static const bool once = [] {
    second.settings.seed("extra", extra, "e");
    return true;
  }();
  CHECK(once);
  const json document = parse_json(text, "s.json", {.errors = JsonErrors::config});
  return expand_sweep(document, "s.json", {"/base", "/home/me", "/cache"},
                      [](const std::string& task) -> const SettingSet& {
                        if (task == "one") return first.settings;
                        if (task == "two") return second.settings;
                        throw ConfigError("unknown task " + task);
                      });
}

std::string described(const SweepCell& cell) {
  std::string text = cell.task + " " + cell.policy;
  for (const auto& [name, texts] : cell.settings) {
    text += " " + name;
    for (const std::string& value : texts) text += "=" + value;
  }
  return text;
}

std::vector<std::string> cells(const std::string& text) {
  std::vector<std::string> list;
  for (const SweepCell& cell : expand(text).cells) list.push_back(described(cell));
  return list;
}

using Strings = std::vector<std::string>;

TEST_CASE("sweep: models, then tasks, then settings as declared; policies move fastest") {
  CHECK(cells(R"({"task": ["one", {"name": "two", "tokens": 7}], "model": ["m", "n"],
                  "tokens": [1, 2], "policy": ["full", "window8"]})") ==
        Strings{"one full model=/base/m tokens=1", "one window8 model=/base/m tokens=1",
                "one full model=/base/m tokens=2", "one window8 model=/base/m tokens=2",
                "two full model=/base/m tokens=7", "two window8 model=/base/m tokens=7",
                "one full model=/base/n tokens=1", "one window8 model=/base/n tokens=1",
                "one full model=/base/n tokens=2", "one window8 model=/base/n tokens=2",
                "two full model=/base/n tokens=7", "two window8 model=/base/n tokens=7"});
}

TEST_CASE("sweep: ranges by step and by factor, alone and in lists, ends included") {
  CHECK(cells(R"({"task": "one", "policy": "full", "tokens": {"from": 1, "to": 6, "step": 2}})") ==
        Strings{"one full tokens=1", "one full tokens=3", "one full tokens=5"});
  CHECK(cells(R"({"task": "one", "policy": "full",
                  "tokens": [5, {"from": 8, "to": 32, "factor": 2}]})") ==
        Strings{"one full tokens=5", "one full tokens=8", "one full tokens=16",
                "one full tokens=32"});
  CHECK(cells(R"({"task": "one", "policy": "full",
                  "share": {"from": 0.1, "to": 0.3, "step": 0.1}})") ==
        Strings{"one full share=0.1", "one full share=0.2", "one full share=0.3"});
}

TEST_CASE("sweep: a setting whose value is a list has an axis where it is a list of lists") {
  CHECK(cells(R"({"task": "one", "policy": "full", "lengths": [1, 2]})") ==
        Strings{"one full lengths=1,2"});
  CHECK(cells(R"({"task": "one", "policy": "full", "lengths": [[1, 2], [3]]})") ==
        Strings{"one full lengths=1,2", "one full lengths=3"});
  CHECK(cells(R"({"task": "one", "policy": "full",
                  "lengths": {"from": 256, "to": 1024, "factor": 2}})") ==
        Strings{"one full lengths=256,512,1024"});
  CHECK(cells(R"({"task": "one", "policy": "full", "ids": ["1,2", "3"]})") ==
        Strings{"one full ids=1,2=3"});
  CHECK(cells(R"({"task": "one", "policy": "full", "ids": [["1,2"], ["3"]]})") ==
        Strings{"one full ids=1,2", "one full ids=3"});
}

TEST_CASE("sweep: a policy object is a product of its lists and ranges") {
  CHECK(cells(R"({"task": "one", "policy": ["full", {"name": "snapkv", "capacity": [64, 128],
                  "window": {"from": 8, "to": 16, "step": 8}, "pool": "max"}]})") ==
        Strings{"one full", "one snapkv:capacity=64,pool=max,window=8",
                "one snapkv:capacity=64,pool=max,window=16",
                "one snapkv:capacity=128,pool=max,window=8",
                "one snapkv:capacity=128,pool=max,window=16"});
}

TEST_CASE("sweep: exclude takes cells out by value, policy text or policy keys; include adds") {
  CHECK(cells(R"({"task": "one", "tokens": [1, 2, 3],
                  "policy": ["full", "window8", "snapkv:capacity=64,window=8"],
                  "exclude": [{"tokens": [1, 2], "policy": "full"},
                              {"policy": {"name": "snapkv", "window": 8}, "tokens": 3},
                              {"tokens": 2}],
                  "include": [{"tokens": 9, "policy": "full"}]})") ==
        Strings{"one window8 tokens=1", "one snapkv:capacity=64,window=8 tokens=1",
                "one full tokens=3", "one window8 tokens=3", "one full tokens=9"});
}

TEST_CASE("sweep: include stands over the keys of task objects") {
  CHECK(cells(R"({"task": {"name": "one", "tokens": [1, 2]}, "policy": "full",
                  "include": [{"tokens": 5}, {"task": "two", "extra": 3}]})") ==
        Strings{"one full tokens=1", "one full tokens=2", "one full tokens=5", "two full extra=3"});
}

TEST_CASE("sweep: paths begin at the file, at home or at the cache; bare names of data stay") {
  CHECK(cells(R"({"task": "one", "policy": "full", "model": ["../m", "/abs/m", "~/m",
                  "$KVBENCH_CACHE/models/m"], "data": ["pg19-test", "./pg19-test"]})")[7] ==
        "one full model=/cache/models/m data=/base/pg19-test");
  const auto all = cells(R"({"task": "one", "policy": "full", "data": "pg19-test",
                             "model": ["../m", "/abs/m", "~/m"]})");
  CHECK(all == Strings{"one full model=/m data=pg19-test", "one full model=/abs/m data=pg19-test",
                       "one full model=/home/me/m data=pg19-test"});
  CHECK(expand(R"({"task": "one", "policy": "full", "out": "../r"})").out == "/r");
}

void refused(const std::string& keys, const std::string& words) {
  CAPTURE(keys);
  const std::string message = test::error_text<ConfigError>(
      [&] { expand(R"({"task": "one", "policy": "full", )" + keys + "}"); });
  CAPTURE(message);
  CHECK(message.starts_with("s.json: "));
  CHECK(contains(message, words));
}

TEST_CASE("sweep: what is refused, with the key and the nearest name") {
  refused(R"("tokns": 3)", "key tokns: unknown (did you mean tokens?)");
  refused(R"("window": 3)", "key window: unknown");
  refused(R"("policies_file": "x")", "key policies_file: a sweep lists its policies");
  refused(R"("tokens": null)", "key tokens: null is no value");
  refused(R"("tokens": "8")", R"(key tokens: expected an integer from 0 to 1000, found "8")");
  refused(R"("tokens": 8.0)", "expected an integer");
  refused(R"("tokens": 1e1)", "expected an integer");
  refused(R"("tokens": true)", "expected an integer");
  refused(R"("tokens": -1)", "an integer from 0 to 1000");
  refused(R"("tokens": 4294967304)", "\"4294967304\" is not an integer from 0 to 1000");
  refused(R"("tokens": 18446744073709551616)", "expected an integer");
  refused(R"("tokens": [])", "key tokens: an empty list");
  refused(R"("tokens": [[1]])", "expected an integer");
  refused(R"("tokens": {"form": 1})", "expected an integer");
  refused(R"("tokens": {"from": 1, "to": 5})", "expected a range");
  refused(R"("tokens": {"from": 1, "to": 5, "step": 0})", "does not rise");
  refused(R"("tokens": {"from": 5, "to": 1, "step": 1})", "does not rise");
  refused(R"("tokens": {"from": 1, "to": 5, "factor": 1})", "does not rise");
  refused(R"("tokens": {"from": 0, "to": 5, "factor": 2})", "does not rise");
  refused(R"("tokens": {"from": 1, "to": "5", "step": 1})", "key tokens.to: expected a number");
  refused(R"("tokens": {"from": 1, "to": 1e15, "step": 1})", "more than 100000 values");
  refused(R"("share": "0.5")", "key share: expected a number from 0 to 1");
  refused(R"("share": 1.5)", "a number from 0 to 1");
  refused(R"("strict": 1)", "key strict: expected true or false, found 1");
  refused(R"("mode": "c")", "is not one of a, b");
  refused(R"("lengths": 5)", "key lengths: expected a list of integers, found 5");
  refused(R"("lengths": [1, 2.5])", "expected a list of integers");
  refused(R"("lengths": [[1], 2])", "expected a list of integers");
  refused(R"("ids": [1, 2])", "key ids: expected a text or a list of texts");
  refused(R"("out": 3)", "key out: expected a text");
  refused(R"("exclude": {"tokens": 1})", "key exclude: expected a list of objects");
  refused(R"("exclude": [{"tokens": 1}])", "key exclude.0: matches no cell");
  refused(R"("exclude": [{"tokns": 1}])", "key exclude.0.tokns: unknown");
  refused(R"("exclude": [{"policy": "full"}])", "no cell is left");
  refused(R"("include": [{"tokens": "x"}])", "key include.0.tokens: expected an integer");
}

TEST_CASE("sweep: policies, tasks and whole documents that are refused") {
  const auto message = [](const std::string& text) {
    return test::error_text<ConfigError>([&] { expand(text); });
  };
  CHECK(contains(message("[]"), "s.json: expected an object"));
  CHECK(contains(message("{}"), "key task: missing"));
  CHECK(contains(message(R"({"task": "one"})"), "key policy: missing"));
  CHECK(contains(message(R"({"task": 3, "policy": "full"})"), "expected a task's name"));
  CHECK(contains(message(R"({"task": [], "policy": "full"})"), "key task: an empty list"));
  CHECK(contains(message(R"({"task": {"name": "one", "extra": 1}, "policy": "full"})"),
                 "key task.extra: unknown"));
  CHECK(contains(message(R"({"task": "one", "policy": []})"), "key policy: an empty list"));
  CHECK(contains(message(R"({"task": "one", "policy": 3})"), "key policy: expected a policy"));
  CHECK(contains(message(R"({"task": "one", "policy": {"name": "x", "y": []}})"),
                 "key policy.y: an empty list"));
  CHECK(contains(message(R"({"task": "one", "policy": {"name": "x", "y": null}})"),
                 "expected a string, number or boolean, found null"));
  CHECK(contains(message(R"({"task": "one", "task": "two"})"), "duplicate key"));
  CHECK(contains(message(R"({"task": "one", "policy": "full",
                             "tokens": {"from": 0, "to": 999, "step": 1},
                             "share": {"from": 0, "to": 1, "step": 0.001}})"),
                 "key share: more than 100000 cells"));
}

TEST_CASE("sweep: --set replaces, adds and reaches into objects and lists") {
  json document = json::parse(R"({"task": [{"name": "one"}], "tokens": 3})");
  apply_override(document, "tokens=[1,2]");
  apply_override(document, "task.0.share=0.5");
  apply_override(document, "policy=full");
  apply_override(document, "new.key=\"7\"");
  CHECK(document == json::parse(R"({"task": [{"name": "one", "share": 0.5}], "tokens": [1, 2],
                                    "policy": "full", "new": {"key": "7"}})"));
  const auto message = [&](const std::string& text) {
    return test::error_text<ConfigError>([&] { apply_override(document, text); });
  };
  CHECK(contains(message("tokens"), "expected KEY=VALUE"));
  CHECK(contains(message("=3"), "expected KEY=VALUE"));
  CHECK(contains(message("task.1.share=3"), "is not an integer from 0 to 0"));
  CHECK(contains(message("policy.name=3"), "no key of an object"));
  CHECK(contains(message("new..key=3"), "no key of an object"));
}

}  // namespace
}  // namespace kvbench
