// Well-formed and malformed safetensors files, each malformed one with the fault it must name.
#include "io/safetensors.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/support/cpu_time.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

using std::string_literals::operator""s;
using test::bytes_of;
using test::contains;
using test::error_text;
using test::safetensors_bytes;
using test::SafetensorsBuilder;
using test::TempDir;

// The message for a file of these bytes, which must be refused.
std::string refusal(const std::string& bytes) {
  const TempDir dir;
  const auto path = dir.write("t.safetensors", bytes);
  const std::string message = error_text<DataError>([&] { SafetensorsFile::open(path); });
  CHECK(contains(message, path.string()));
  CHECK_FALSE(contains(message, "\n"));
  return message;
}

std::string refusal(const std::string& header, std::size_t data_bytes) {
  return refusal(safetensors_bytes(header, std::string(data_bytes, '\0')));
}

// A header entry of one tensor, all parts as they stand in the JSON text.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":{},"shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}

// A header of these entries.
std::string header_of(const std::vector<std::string>& entries) {
  std::string header(1, '{');
  for (const std::string& text : entries) header.append(header.size() > 1 ? "," : "").append(text);
  return header.append("}");
}

SafetensorsFile open_bytes(const TempDir& dir, const std::string& bytes) {
  return SafetensorsFile::open(dir.write("t.safetensors", bytes));
}

std::vector<float> floats(const SafetensorsFile& file, const std::string& name) {
  const TensorView* tensor = file.find(name);
  REQUIRE(tensor != nullptr);
  std::vector<float> values(static_cast<std::size_t>(tensor->element_count()));
  to_floats(*tensor, 0, tensor->element_count(), values.data());
  return values;
}

long peak_resident_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST_CASE("header length: checked before it is used") {
  const auto with_length = [](std::uint64_t length, const std::string& rest) {
    return bytes_of<std::uint64_t>({length}) + rest;
  };
  refusal(std::string(3, 'x'));  // the first use of streams and temporary folders costs memory
  const long before_kib = peak_resident_kib();
  const double start = test::thread_cpu_seconds();
  const std::string most = refusal(with_length(std::numeric_limits<std::uint64_t>::max(), "{}"));
  CHECK(contains(most, "18446744073709551615"));
  CHECK(contains(most, "10 bytes"));
  const std::string above = refusal(with_length(100'000'001, "{}"));
  CHECK(contains(above, "100000001"));
  CHECK(contains(above, "100000000"));
  const std::string largest_allowed = refusal(with_length(100'000'000, "{}"));
  CHECK(contains(largest_allowed, "does not fit into the file"));
  const std::string past_end = refusal(with_length(1000, std::string(58, ' ')));
  CHECK(contains(past_end, "1000"));
  CHECK(contains(past_end, "66 bytes"));
  CHECK(contains(refusal(with_length(0xFFFFFFFFFFFFFFF8u, "{}")), "18446744073709551608"));
  CHECK(contains(refusal(std::string(7, '\x02')), "7 bytes"));
  CHECK(contains(refusal(""), "0 bytes"));
  CHECK(contains(refusal(with_length(0, "")), "must start with {"));
  CHECK(test::thread_cpu_seconds() - start < 1.0);
#ifdef __SANITIZE_ADDRESS__  // its shadow memory grows too
  constexpr std::int64_t kMostKib = 8192;
#else
  constexpr std::int64_t kMostKib = 1024;
#endif
  CHECK(peak_resident_kib() - before_kib < kMostKib);
}

TEST_CASE("a header of the largest allowed length loads") {
  std::string header = header_of({entry("t", "\"F32\"", "[1]", "[0,4]")});
  header.resize(100'000'000, ' ');
  const TempDir dir;
  const SafetensorsFile file = open_bytes(dir, safetensors_bytes(header, bytes_of<float>({1.0f})));
  CHECK(floats(file, "t") == std::vector<float>{1.0f});
}

TEST_CASE("a git-lfs pointer is called by its name") {
  const std::string message = refusal(
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22e\n"
      "size 548105171\n");
  CHECK(contains(message, "git-lfs"));
}

TEST_CASE("names given twice") {
  const std::string w = entry("w", "\"F32\"", "[1]", "[0,4]");
  CHECK(contains(refusal(header_of({w, w}), 4), "duplicate key w"));
  const std::string second = entry("w", "\"F32\"", "[1]", "[4,8]");
  CHECK(contains(refusal(header_of({w, second}), 8), "duplicate key w"));
  CHECK(contains(
      refusal(R"({"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
      "duplicate key dtype"));
  CHECK(contains(refusal(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "duplicate key a"));
}

TEST_CASE("tensors may not share bytes") {
  const std::string all = refusal(header_of({entry("k_proj", "\"F32\"", "[2]", "[0,8]"),
                                             entry("v_proj", "\"F32\"", "[2]", "[0,8]")}),
                                  8);
  CHECK(contains(all, "k_proj"));
  CHECK(contains(all, "v_proj"));
  const std::string part = refusal(
      header_of({entry("a", "\"F32\"", "[2]", "[0,8]"), entry("b", "\"F32\"", "[2]", "[4,12]")}),
      12);
  CHECK(contains(part, "tensor b at 4..12 overlaps tensor a at 0..8"));
  const std::string inside = refusal(
      header_of({entry("a", "\"F32\"", "[3]", "[0,12]"), entry("b", "\"F32\"", "[0]", "[4,4]")}),
      12);
  CHECK(contains(inside, "tensor b at 4..4 overlaps"));
}

TEST_CASE("every data byte belongs to a tensor") {
  const std::string a = entry("a", "\"F32\"", "[1]", "[0,4]");
  CHECK(contains(refusal(header_of({a, entry("b", "\"F32\"", "[1]", "[8,12]")}), 12),
                 "gap before `b` at 4..8"));
  CHECK(contains(refusal(header_of({entry("b", "\"F32\"", "[1]", "[4,8]")}), 8),
                 "gap before `b` at 0..4"));
  CHECK(contains(refusal(header_of({a}), 9), "5 bytes after the last tensor"));
  CHECK(contains(refusal("{}", 3), "3 bytes after the last tensor"));
}

TEST_CASE("shape products that overflow") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"[4294967296,4294967296]", "[0,0]"},   {"[4611686018427387905]", "[0,4]"},
      {"[2305843009213693952]", "[0,0]"},     {"[4294967296,4294967296,0]", "[0,0]"},
      {"[0,4294967296,4294967296]", "[0,0]"}, {"[18446744073709551615]", "[0,4]"},
      {"[9223372036854775808,2]", "[0,0]"}};
  for (const auto& [shape, offsets] : rows) {
    CAPTURE(shape);
    const std::string message = refusal(header_of({entry("t", "\"F32\"", shape, offsets)}), 4);
    CHECK(contains(message, "shape overflows"));
    CHECK(contains(message, "tensor t"));
  }
}

TEST_CASE("unknown dtypes") {
  CHECK(contains(refusal(header_of({entry("t", "\"F128\"", "[1]", "[0,4]")}), 4),
                 "unknown dtype F128 of tensor t"));
  CHECK(contains(refusal(header_of({entry("t", "\"XYZ\"", "[1]", "[9223372036854775808,4]")}), 4),
                 "unknown dtype XYZ of tensor t"));
  CHECK(contains(refusal(header_of({entry("t", "\"f32\"", "[1]", "[0,4]")}), 4), "unknown dtype"));
  CHECK(contains(refusal(header_of({entry("t", "4", "[1]", "[0,4]")}), 4), "dtype of tensor t"));
}

TEST_CASE("shape against byte range") {
  CHECK(contains(refusal(header_of({entry("t", "\"F32\"", "[1000,1000]", "[0,4]")}), 4),
                 "tensor t needs 4000000 bytes, has 4"));
  CHECK(contains(refusal(header_of({entry("t", "\"F32\"", "[1]", "[0,0]")}), 0),
                 "tensor t needs 4 bytes, has 0"));
  CHECK(contains(refusal(header_of({entry("t", "\"F32\"", "[0]", "[0,4]")}), 4),
                 "tensor t needs 0 bytes, has 4"));
  CHECK(contains(refusal(header_of({entry("t", "\"F32\"", "[]", "[0,8]")}), 8),
                 "tensor t needs 4 bytes, has 8"));
}

TEST_CASE("files that end too soon") {
  const std::string header =
      header_of({entry("a", "\"F32\"", "[4]", "[0,16]"), entry("b", "\"F32\"", "[4]", "[16,32]")});
  CHECK(contains(refusal(header, 20), "promises 32 bytes of data, file has 20"));
  CHECK(contains(refusal(header, 31), "promises 32 bytes of data, file has 31"));
  const std::string whole = safetensors_bytes(header, std::string(32, '\0'));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK(refusal(whole.substr(0, length)) != "no error");
  }
}

TEST_CASE("empty and scalar tensors") {
  const TempDir dir;
  const SafetensorsFile file = open_bytes(dir, SafetensorsBuilder()
                                                   .add_f32("e", {0}, {})
                                                   .add_f32("s", {}, {2.5f})
                                                   .add_f32("z", {3, 0, 2}, {})
                                                   .bytes());
  CHECK(file.tensors().size() == 3);
  CHECK(floats(file, "e").empty());
  CHECK(floats(file, "s") == std::vector<float>{2.5f});
  CHECK(floats(file, "z").empty());
  CHECK(file.find("z")->shape == Shape{3, 0, 2});
  CHECK(file.find("s")->shape.empty());
}

TEST_CASE("data at odd addresses") {
  const TempDir dir;
  const SafetensorsFile file =
      open_bytes(dir, SafetensorsBuilder()
                          .add("u", DType::u8, {1}, "\x07")
                          .add_f32("f", {2}, {1.5f, -2.25f})
                          .add("h", DType::f16, {1}, bytes_of<std::uint16_t>({0x3E00}))
                          .bytes());
  CHECK(std::to_integer<int>(*file.find("u")->data) == 7);
  CHECK(floats(file, "f") == std::vector<float>{1.5f, -2.25f});
  CHECK(floats(file, "h") == std::vector<float>{1.5f});
}

TEST_CASE("wrong types in shape and offsets") {
  const std::vector<std::string> shapes = {"[-1,-1]",
                                           "[1.0]",
                                           "[\"1\"]",
                                           "[true]",
                                           "[null]",
                                           "[[1]]",
                                           "1",
                                           "{}",
                                           "null",
                                           "[1e0]",
                                           "[18446744073709551617]"};
  for (const std::string& shape : shapes) {
    CAPTURE(shape);
    CHECK(contains(refusal(header_of({entry("t", "\"F32\"", shape, "[0,4]")}), 4),
                   "shape of tensor t"));
  }
  const std::vector<std::string> offsets = {"[4,0]",  "[0,4,8]",   "[0]",       "[]", "[0,4.0]",
                                            "[-4,0]", "[\"0\",4]", "[false,4]", "4",  "null"};
  for (const std::string& range : offsets) {
    CAPTURE(range);
    CHECK(contains(refusal(header_of({entry("t", "\"F32\"", "[1]", range)}), 4),
                   "data_offsets of tensor t"));
  }
}

TEST_CASE("entries that lack a part or are none") {
  CHECK(contains(refusal(R"({"t":{"shape":[1],"data_offsets":[0,4]}})", 4), "t has no dtype"));
  CHECK(contains(refusal(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4), "t has no shape"));
  CHECK(contains(refusal(R"({"t":{"dtype":"F32","shape":[1]}})", 4), "t has no data_offsets"));
  CHECK(contains(refusal(R"({"t":7})", 0), "tensor t is not an object"));
  CHECK(contains(refusal(R"({"t":null})", 0), "tensor t is not an object"));
}

TEST_CASE("__metadata__ holds strings and is no tensor") {
  CHECK(contains(refusal(header_of({entry("__metadata__", "\"F32\"", "[1]", "[0,4]")}), 4),
                 "__metadata__"));
  CHECK(contains(refusal(R"({"__metadata__":{"step":7}})", 0), "step"));
  CHECK(contains(refusal(R"({"__metadata__":"pt"})", 0), "__metadata__"));
  const TempDir dir;
  const SafetensorsFile file =
      open_bytes(dir, safetensors_bytes(R"({"__metadata__":{"format":"pt"},)" +
                                            entry("t", "\"F32\"", "[1]", "[0,4]") + "}",
                                        bytes_of<float>({1.0f})));
  CHECK(file.tensors().size() == 1);
  CHECK(floats(file, "t") == std::vector<float>{1.0f});
  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.find("__metadata__") == nullptr);
}

TEST_CASE("header text that JSON parsers read in different ways") {
  const std::string header = header_of({entry("t", "\"F32\"", "[1]", "[0,4]")});
  CHECK(contains(refusal(fmt::format(" {}", header), 4), "must start with {"));
  CHECK(contains(refusal("\xEF\xBB\xBF" + header, 4), "must start with {"));
  CHECK(contains(refusal("[]", 0), "must start with {"));
  CHECK(contains(refusal(header + "\0\0"s, 4), "NUL"));
  CHECK(contains(refusal(header + header, 4), "line 1, column"));
  CHECK(contains(refusal(header_of({entry("t\xFF", "\"F32\"", "[1]", "[0,4]")}), 4), "UTF-8"));
  const TempDir dir;
  const std::string padded = header + std::string(37, ' ');
  CHECK(floats(open_bytes(dir, safetensors_bytes(padded, bytes_of<float>({1.0f}))), "t") ==
        std::vector<float>{1.0f});
  const SafetensorsFile none = open_bytes(dir, safetensors_bytes("{}", ""));
  CHECK(none.tensors().empty());
  CHECK(none.find("t") == nullptr);
}

TEST_CASE("deep or wide headers") {
  const std::string deep = "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  CHECK(contains(refusal(deep, 0), "nested deeper"));
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  CHECK(contains(refusal(header_of({entry("t", "\"U8\"", "[" + ones + "]", "[0,1]")}), 1),
                 "array of more than 64 elements"));
}

TEST_CASE("the header's order need not be the data's order") {
  const std::string header =
      header_of({entry("z", "\"F32\"", "[1]", "[8,12]"), entry("a", "\"F32\"", "[1]", "[4,8]"),
                 entry("m", "\"F32\"", "[1]", "[0,4]")});
  const TempDir dir;
  const SafetensorsFile file =
      open_bytes(dir, safetensors_bytes(header, bytes_of<float>({10.0f, 20.0f, 30.0f})));
  CHECK(floats(file, "m") == std::vector<float>{10.0f});
  CHECK(floats(file, "a") == std::vector<float>{20.0f});
  CHECK(floats(file, "z") == std::vector<float>{30.0f});
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.tensors()[0].name == "m");
  CHECK(file.tensors()[1].name == "a");
  CHECK(file.tensors()[2].name == "z");
}

TEST_CASE("a field that the format does not know gives a warning") {
  const TempDir dir;
  const std::string header =
      R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"sparse":true}})";
  const SafetensorsFile file = open_bytes(dir, safetensors_bytes(header, bytes_of<float>({1.0f})));
  CHECK(floats(file, "t") == std::vector<float>{1.0f});
  REQUIRE(file.warnings().size() == 1);
  CHECK(contains(file.warnings()[0], "sparse"));
}

TEST_CASE("names with control characters stay on one line of the message") {
  const std::string header = header_of({entry(R"(a\nb\u001b[2J)", "\"F128\"", "[1]", "[0,4]")});
  CHECK(contains(refusal(header, 4), "a\\x0ab\\x1b[2J"));
}

TEST_CASE("a moved file keeps its views") {
  const TempDir dir;
  SafetensorsFile first = open_bytes(dir, SafetensorsBuilder().add_f32("t", {1}, {3.0f}).bytes());
  const TensorView* before = first.find("t");
  const SafetensorsFile second = std::move(first);
  CHECK(second.find("t") == before);
  CHECK(floats(second, "t") == std::vector<float>{3.0f});
}

TEST_CASE("a tensor beyond 4 GiB reads back") {
  constexpr std::uint64_t kPadBytes = std::uint64_t{5} << 30;
  const std::string header = header_of(
      {entry("pad", "\"U8\"", fmt::format("[{}]", kPadBytes), fmt::format("[0,{}]", kPadBytes)),
       entry("t", "\"F32\"", "[1]", fmt::format("[{},{}]", kPadBytes, kPadBytes + 4))});
  const TempDir dir;
  const auto path = dir.write("t.safetensors", safetensors_bytes(header, ""));
  const std::uint64_t data_begin = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, data_begin + kPadBytes);  // a hole: takes no disk space
  std::ofstream(path, std::ios::binary | std::ios::app) << bytes_of<float>({1.5f});
  const SafetensorsFile file = SafetensorsFile::open(path);
  CHECK(file.file().size() == data_begin + kPadBytes + 4);
  CHECK(file.find("pad")->element_count() == 5368709120);
  CHECK(floats(file, "t") == std::vector<float>{1.5f});
}

}  // namespace
}  // namespace kvbench
