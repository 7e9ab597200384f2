// Suggestions for misspelt names, and foreign text in messages.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/nearest_name.hpp"
#include "core/printable.hpp"

namespace kvbench {
namespace {

TEST_CASE("a slip finds its name") {
  const std::vector<std::string> names = {"model",  "policy", "window", "seed",     "kernel",
                                          "snapkv", "h2o",    "tova",   "pyramidkv"};
  CHECK(nearest_name("windw", names) == "window");
  CHECK(nearest_name("kernal", names) == "kernel");
  CHECK(nearest_name("SnapKV", names) == "snapkv");
  CHECK(nearest_name("sanpkv", names) == "snapkv");
  CHECK(nearest_name("h20", names) == "h2o");
  CHECK(nearest_name("pyramid", names) == "pyramidkv");
  CHECK(nearest_name("sede", names) == "seed");
}

TEST_CASE("an unlike word finds none") {
  const std::vector<std::string> names = {"window", "seed", "h2o"};
  CHECK(nearest_name("sinks", names).empty());
  CHECK(nearest_name("", names).empty());
  CHECK(nearest_name("xyz", names).empty());
  CHECK(nearest_name(std::string(1000000, 'w'), names).empty());
  CHECK(nearest_name("window", std::vector<std::string>{}).empty());
}

TEST_CASE("the nearest wins, the earlier on a tie") {
  const std::vector<std::string> names = {"heavy1", "heavy2", "recent"};
  CHECK(nearest_name("heavy2", names) == "heavy2");
  CHECK(nearest_name("heavy", names) == "heavy1");
}

TEST_CASE("messages stay one clean line whatever the file holds") {
  CHECK(printable("layers.0.w\xC3\xA9") == "layers.0.w\xC3\xA9");
  CHECK(printable("a\nb\tc\x7F") == "a\\x0ab\\x09c\\x7f");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("t\xFF") == "t\\xff");
  CHECK(printable("\xED\xA0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(printable("\xC0\xAF") == "\\xc0\\xaf");           // an overlong slash
  CHECK(printable("\xF0\x9F\x98") == "\\xf0\\x9f\\x98");  // half an emoji
  CHECK(printable("\xF0\x9F\x98\x80") == "\xF0\x9F\x98\x80");
  CHECK(printable("\xEF\xBB\xBFx") == "\\xef\\xbb\\xbfx");
  CHECK(printable("a\xE2\x80\xAEz") == "a\\xe2\\x80\\xaez");  // right-to-left override
  CHECK(printable("a\xC2\x85z") == "a\\xc2\\x85z");
  CHECK(printable(std::string(200, 'x'), 10) == "xxxxxxxxxx...");
  CHECK(printable(std::string(10, 'x'), 10) == "xxxxxxxxxx");
}

}  // namespace
}  // namespace kvbench
