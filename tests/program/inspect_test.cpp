// `kvbench inspect` on good and bad checkpoints: what it tells, and what it refuses in one line.
#include <doctest/doctest.h>

#include "tests/program/program.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;
using test::fault_of;
using test::run_program;

std::string fault_of_file(const std::string& bytes) {
  const test::TempDir folder;
  const auto file = folder.write("model.safetensors", bytes);
  const auto result = run_program({"inspect", file.string()});
  CHECK(result.out.empty());
  const std::string message = fault_of(result, 3);
  CHECK(contains(message, "model.safetensors"));
  return message;
}

TEST_CASE("inspect: a model as text and as JSON") {
  const std::string model = test::tiny_model("llama_rope_llama3").string();
  const auto text = run_program({"inspect", model});
  CHECK(text.exit_code == 0);
  CHECK(contains(text.out, "llama"));
  const auto result = run_program({"inspect", model, "--json"});
  REQUIRE(result.exit_code == 0);
  CHECK(json::parse(result.out).is_object());
  const auto rope = run_program({"inspect", model, "--rope", "--json"});
  REQUIRE(rope.exit_code == 0);
  CHECK(rope.out.size() > result.out.size());
}

TEST_CASE("inspect: one file, its values") {
  const test::TempDir folder;
  const auto file = folder.write(
      "x.safetensors", test::SafetensorsBuilder().add_f32("f", {2}, {1.5f, -2.25f}).bytes());
  const auto result = run_program({"inspect", file.string(), "--values"});
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "-2.25"));
}

TEST_CASE("inspect: files that are refused") {
  const std::string good = test::SafetensorsBuilder().add_f32("t", {2}, {1, 2}).bytes();
  CHECK(fault_of_file(good.substr(0, good.size() - 1)) != "");
  CHECK(fault_of_file("") != "");
  CHECK(fault_of_file(std::string(8, '\xff') + "{}") != "");
  CHECK(contains(fault_of_file("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
                 "git-lfs"));
  CHECK(contains(fault_of_file(test::safetensors_bytes(
                     R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                     R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                     std::string(4, '\0'))),
                 "w"));
  CHECK(contains(
      fault_of_file(test::safetensors_bytes(
          R"({"t":{"dtype":"F128","shape":[1],"data_offsets":[0,4]}})", std::string(4, '\0'))),
      "F128"));
}

TEST_CASE("inspect: checkpoints that lack something name it") {
  CHECK(contains(
      fault_of(run_program({"inspect", test::tiny_model("missing_final_norm").string()}), 3),
      "model.norm.weight"));
  CHECK(contains(
      fault_of(run_program({"inspect", test::tiny_model("tied_false_missing").string()}), 3),
      "lm_head.weight"));
  CHECK(contains(
      fault_of(run_program({"inspect", test::tiny_model("llama_unknown_rope_type").string()}), 3),
      "hyper9000"));
}

}  // namespace
}  // namespace kvbench
