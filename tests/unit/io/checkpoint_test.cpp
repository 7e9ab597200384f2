// Model directories: single files, shards, and indexes that disagree with them.
#include "io/checkpoint.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

using test::contains;
using test::error_text;
using test::SafetensorsBuilder;
using test::TempDir;
using Names = std::vector<std::string>;

std::string one(const std::string& name, float value) {
  return SafetensorsBuilder().add_f32(name, {1}, {value}).bytes();
}

void write_index(const TempDir& dir, const std::string& weight_map,
                 const std::string& metadata = "{}") {
  dir.write("model.safetensors.index.json",
            "{\"metadata\":" + metadata + ",\"weight_map\":" + weight_map + "}");
}

float first_value(const Checkpoint& checkpoint, const std::string& name) {
  float value = 0.0f;
  to_floats(checkpoint.require(name), 0, 1, &value);
  return value;
}

std::string refusal(const TempDir& dir) {
  return error_text<DataError>([&] { Checkpoint::open(dir.path()); });
}

TEST_CASE("a single file") {
  const TempDir dir;
  dir.write("model.safetensors",
            SafetensorsBuilder().add_f32("b", {1}, {2.0f}).add_f32("a", {1}, {1.0f}).bytes());
  Checkpoint opened = Checkpoint::open(dir.path());
  const Checkpoint checkpoint = std::move(opened);
  CHECK(checkpoint.names() == Names{"a", "b"});
  CHECK(first_value(checkpoint, "a") == 1.0f);
  CHECK(first_value(checkpoint, "b") == 2.0f);
  CHECK(checkpoint.find("c") == nullptr);
  CHECK(contains(error_text<DataError>([&] { checkpoint.require("lm_head.weight"); }),
                 "no tensor lm_head.weight"));
  CHECK(checkpoint.warnings().empty());
  checkpoint.release(*checkpoint.find("b"));
  CHECK(first_value(checkpoint, "b") == 2.0f);
}

TEST_CASE("a directory without weights says what was looked for") {
  const TempDir dir;
  dir.write("config.json", "{}");
  const std::string message = refusal(dir);
  CHECK(contains(message, dir.path().string()));
  CHECK(contains(message, "model.safetensors and model.safetensors.index.json"));
  CHECK_THROWS_AS(Checkpoint::open(dir.path() / "absent"), DataError);
  CHECK_THROWS_AS(Checkpoint::open(dir.path() / "config.json"), DataError);
}

TEST_CASE("shards are joined; total_size is not needed and not trusted") {
  for (const char* metadata : {"{\"total_size\":8}", "{}", "{\"total_size\":8.0}",
                               "{\"total_size\":-1}", "null", "{\"other\":\"0\"}"}) {
    CAPTURE(metadata);
    const TempDir dir;
    dir.write("s1.safetensors", one("a", 1.0f));
    dir.write("s2.safetensors", one("b", 2.0f));
    write_index(dir, R"({"a":"s1.safetensors","b":"s2.safetensors"})", metadata);
    const Checkpoint checkpoint = Checkpoint::open(dir.path());
    CHECK(checkpoint.names() == Names{"a", "b"});
    CHECK(first_value(checkpoint, "a") == 1.0f);
    CHECK(first_value(checkpoint, "b") == 2.0f);
    CHECK(checkpoint.warnings().empty());
  }
}

TEST_CASE("an absent shard is named before any shard is read") {
  const TempDir dir;
  dir.write("model-00001-of-00002.safetensors", "not even a header");
  write_index(dir,
              R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})");
  CHECK(contains(refusal(dir), "model-00002-of-00002.safetensors is absent"));
}

TEST_CASE("a cut shard is named") {
  const TempDir dir;
  dir.write("s1.safetensors", one("a", 1.0f));
  const std::string whole = one("b", 2.0f);
  dir.write("s2.safetensors", whole.substr(0, whole.size() - 1));
  write_index(dir, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  CHECK(contains(refusal(dir), "s2.safetensors: the header promises 4 bytes of data, file has 3"));
}

TEST_CASE("shard paths may not leave the directory") {
  const TempDir outside;
  const auto other = outside.write("x.safetensors", one("b", 9.0f));
  const TempDir dir;
  dir.write("s1.safetensors", one("a", 1.0f));
  std::filesystem::create_directory_symlink(outside.path(), dir.path() / "linked");
  const Names shards = {
      "../x.safetensors", other.string(),         "/etc/passwd",           "a/../../b", "", "..",
      "s1.safetensors/",  "linked/x.safetensors", "s1.safetensors\\u0000x"};
  for (const std::string& shard : shards) {
    CAPTURE(shard);
    write_index(dir, R"({"a":"s1.safetensors","b":")" + shard + "\"}");
    CHECK(contains(refusal(dir), "shard path leaves the model directory"));
  }
}

TEST_CASE("a shard that is a symbolic link, or in a folder, is fine") {
  const TempDir blobs;
  const auto blob = blobs.write("0123abcd", one("a", 1.0f));
  const TempDir dir;
  std::filesystem::create_symlink(blob, dir.path() / "s1.safetensors");
  dir.write("sub/s2.safetensors", one("b", 2.0f));
  write_index(dir, R"({"a":"s1.safetensors","b":"sub/s2.safetensors"})");
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  CHECK(first_value(checkpoint, "a") == 1.0f);
  CHECK(first_value(checkpoint, "b") == 2.0f);
}

TEST_CASE("the index sends a tensor to the wrong shard") {
  const TempDir dir;
  dir.write("s1.safetensors", one("a", 1.0f));
  dir.write("s2.safetensors", one("b", 2.0f));
  write_index(dir, R"({"a":"s2.safetensors","b":"s2.safetensors"})");
  CHECK(contains(refusal(dir), "`a` not in s2.safetensors"));
}

TEST_CASE("the index decides between two tensors of one name") {
  const TempDir dir;
  dir.write("s1.safetensors", one("a", 1.0f));
  dir.write("s2.safetensors",
            SafetensorsBuilder().add_f32("a", {1}, {9.0f}).add_f32("b", {1}, {2.0f}).bytes());
  write_index(dir, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  CHECK(first_value(checkpoint, "a") == 1.0f);
  REQUIRE(checkpoint.warnings().size() == 1);
  CHECK(contains(checkpoint.warnings()[0], "tensor a of s2.safetensors is ignored"));
}

TEST_CASE("a tensor that the index leaves out is kept when there is one only") {
  const TempDir dir;
  dir.write("s1.safetensors",
            SafetensorsBuilder().add_f32("a", {1}, {1.0f}).add_f32("a.bias", {1}, {7.0f}).bytes());
  dir.write("s2.safetensors", one("b", 2.0f));
  write_index(dir, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  CHECK(first_value(checkpoint, "a.bias") == 7.0f);
  REQUIRE(checkpoint.warnings().size() == 1);
  CHECK(contains(checkpoint.warnings()[0], "a.bias"));
  dir.write("s2.safetensors",
            SafetensorsBuilder().add_f32("b", {1}, {2.0f}).add_f32("a.bias", {1}, {8.0f}).bytes());
  CHECK(contains(refusal(dir), "tensor a.bias of s2.safetensors is in another shard too"));
}

TEST_CASE("index files that are none") {
  for (const char* text : {"[]", "null", "{}", "{\"weight_map\":[]}", "{\"weight_map\":null}",
                           "{\"weight_map\":{\"a\":7}}", "{\"weight_map\":{\"a\":null}}",
                           "{\"weight_map\":{\"a\":\"s1\",\"a\":\"s2\"}}", "{"}) {
    CAPTURE(text);
    const TempDir dir;
    dir.write("model.safetensors.index.json", text);
    CHECK(contains(refusal(dir), "model.safetensors.index.json: "));
  }
}

TEST_CASE("with both a single file and an index, the single file is used") {
  const TempDir dir;
  dir.write("model.safetensors", one("a", 1.0f));
  write_index(dir, R"({"a":"absent.safetensors"})");
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  CHECK(first_value(checkpoint, "a") == 1.0f);
  CHECK(checkpoint.warnings().size() == 1);
}

TEST_CASE("the content hash is that of the weights, not of the files") {
  const TempDir single;
  single.write("model.safetensors",
               SafetensorsBuilder().add_f32("b", {1}, {2.0f}).add_f32("a", {1}, {1.0f}).bytes());
  const TempDir sharded;
  sharded.write("s1.safetensors", one("a", 1.0f));
  sharded.write("s2.safetensors", one("b", 2.0f));
  write_index(sharded, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  const std::string hash = Checkpoint::open(single.path()).content_hash();
  CHECK(hash.size() == 64);
  CHECK(Checkpoint::open(sharded.path()).content_hash() == hash);

  const std::vector<std::string> others = {
      SafetensorsBuilder().add_f32("b", {1}, {2.0f}).add_f32("a", {1}, {1.0000001f}).bytes(),
      SafetensorsBuilder().add_f32("b", {1}, {2.0f}).add_f32("c", {1}, {1.0f}).bytes(),
      SafetensorsBuilder().add_f32("b", {1}, {2.0f}).add_f32("a", {1, 1}, {1.0f}).bytes(),
      SafetensorsBuilder()
          .add_f32("b", {1}, {2.0f})
          .add("a", DType::i32, {1}, test::bytes_of<float>({1.0f}))
          .bytes()};
  for (const std::string& bytes : others) {
    const TempDir dir;
    dir.write("model.safetensors", bytes);
    CHECK(Checkpoint::open(dir.path()).content_hash() != hash);
  }
}

}  // namespace
}  // namespace kvbench
