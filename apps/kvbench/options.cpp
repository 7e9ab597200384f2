// Definitions of options.hpp. CLI11 sees every value as text; the conversion is ours.
#include "apps/kvbench/options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "config/parse_number.hpp"
#include "core/error.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kLargestId = std::numeric_limits<std::int32_t>::max();

// An option whose text `store` converts; its ConfigError becomes a parse error of CLI11.
template <class Store>
CLI::Option* add_converted(CLI::App& app, const std::string& name, const std::string& type,
                           const std::string& default_text, const std::string& help, Store store) {
  const CLI::callback_t callback = [store](const CLI::results_t& results) {
    try {
      store(results.front());
    } catch (const ConfigError& error) {
      throw CLI::ValidationError(error.what(), CLI::ExitCodes::ConversionError);
    }
    return true;
  };
  CLI::Option* option = app.add_option(name, callback, help);
  option->type_name(type);
  option->expected(1);
  option->allow_extra_args(false);
  // Given twice is a fault: which of the two was meant?
  option->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  option->default_str(default_text);
  return option;
}

std::string join(const std::vector<std::string>& words, const char* separator) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : separator) + word;
  return joined;
}

}  // namespace

CLI::Option* add_int(CLI::App& app, const std::string& name, std::int64_t& value, std::int64_t min,
                     std::int64_t max, const std::string& help) {
  return add_converted(app, name, "INT", fmt::format("{}", value), help,
                       [&value, name, min, max](const std::string& text) {
                         value = parse_int(text, min, max, name);
                       });
}

CLI::Option* add_uint64(CLI::App& app, const std::string& name, std::uint64_t& value,
                        const std::string& help) {
  return add_converted(
      app, name, "INT", fmt::format("{}", value), help,
      [&value, name](const std::string& text) { value = parse_uint64(text, name); });
}

CLI::Option* add_real(CLI::App& app, const std::string& name, double& value, double min, double max,
                      const std::string& help) {
  return add_converted(app, name, "REAL", fmt::format("{}", value), help,
                       [&value, name, min, max](const std::string& text) {
                         value = parse_real(text, min, max, name);
                       });
}

CLI::Option* add_text(CLI::App& app, const std::string& name, std::string& value,
                      const std::string& help) {
  return add_converted(app, name, "TEXT", value, help, [&value, name](const std::string& text) {
    if (text.empty()) config_error("{}: empty text", name);
    value = text;
  });
}

CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value,
                        const std::vector<std::string>& choices, const std::string& help) {
  return add_converted(
      app, name, join(choices, "|"), value, help, [&value, name, choices](const std::string& text) {
        if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
          config_error("{}: \"{}\" is not one of {}", name, text, join(choices, ", "));
        }
        value = text;
      });
}

CLI::Option* add_id_list(CLI::App& app, const std::string& name, std::vector<std::int64_t>& value,
                         const std::string& help) {
  return add_converted(app, name, "ID,ID,...", "", help, [&value, name](const std::string& text) {
    value = parse_int_list(text, 0, kLargestId, name);
  });
}

}  // namespace kvbench
