// Feeds arbitrary text to the strict JSON parser and the typed readers. What is accepted must be
// what nlohmann's own parser reads, and must survive being written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "io/json_file.hpp"
#include "io/json_reader.hpp"

namespace {

using nlohmann::json;

void require(bool promise) {
  if (!promise) std::abort();
}

template <class Call>
void refusable(Call&& call) {
  try {
    call();
  } catch (const kvbench::ConfigError&) {
    // The one way for a typed reader to refuse.
  }
}

void read_member(const kvbench::JsonReader& reader, const std::string& key, const json& value) {
  const std::vector<std::string> known = {"window"};
  refusable([&] {
    const auto number = reader.optional_int(key, -5, 1000);
    require(number && *number >= -5 && *number <= 1000 && value == *number);
  });
  refusable([&] { require(reader.require_double(key, -1, 1) <= 1); });
  refusable([&] { require(reader.require_bool(key) == value); });
  refusable([&] { require(reader.require_string(key) == value); });
  refusable([&] { require(reader.optional_int_or_ints(key, 0, 9).has_value()); });
  refusable([&] { reader.require_object(key).reject_unknown_keys(known); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  json document;
  try {
    document = kvbench::parse_json(text, "fuzz", {.allow_bom = true});
  } catch (const kvbench::DataError& error) {
    require(std::string_view(error.what()).starts_with("fuzz: line "));
    return 0;
  }
  require(document == json::parse(text));
  require(document == kvbench::parse_json(document.dump(), "again"));
  if (document.is_object()) {
    const kvbench::JsonReader reader(document, "fuzz", kvbench::JsonErrors::config);
    for (const auto& [key, value] : document.items()) read_member(reader, key, value);
  }
  return 0;
}
