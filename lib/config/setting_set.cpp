// Declarations: what a kind of setting accepts, and how it is stored.
#include "config/setting_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "config/parse_number.hpp"
#include "core/error.hpp"

namespace kvbench {
namespace {

std::vector<double> parse_reals(std::string_view text, double min, double max,
                                const std::string& what) {
  std::vector<double> values;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    values.push_back(parse_real(text.substr(start, comma - start), min, max, what));
    start = comma + 1;
  }
  return values;
}

}  // namespace

Setting& SettingSet::add(std::string name, SettingKind kind, std::string type_name,
                         std::string fallback, std::string help) {
  KVB_CHECK(find(name) == nullptr, "two settings are called {}", name);
  Setting& setting = settings_.emplace_back();
  setting.name = std::move(name);
  setting.kind = kind;
  setting.type_name = std::move(type_name);
  setting.fallback = std::move(fallback);
  setting.help = std::move(help);
  return setting;
}

Setting& SettingSet::flag(std::string name, bool& value, std::string help) {
  Setting& setting =
      add(std::move(name), SettingKind::flag, "", value ? "true" : "false", std::move(help));
  setting.store = [&value](std::string_view text, const std::string& what) {
    if (text != "true" && text != "false") {
      config_error("{}: \"{}\" is neither true nor false", what, text);
    }
    value = text == "true";
  };
  return setting;
}

Setting& SettingSet::integer(std::string name, std::int64_t& value, std::int64_t min,
                             std::int64_t max, std::string help) {
  Setting& setting =
      add(std::move(name), SettingKind::integer, "INT", fmt::format("{}", value), std::move(help));
  setting.min = static_cast<double>(min);
  setting.max = static_cast<double>(max);
  setting.store = [&value, min, max](std::string_view text, const std::string& what) {
    value = parse_int(text, min, max, what);
  };
  return setting;
}

Setting& SettingSet::seed(std::string name, std::uint64_t& value, std::string help) {
  Setting& setting =
      add(std::move(name), SettingKind::integer, "INT", fmt::format("{}", value), std::move(help));
  setting.max = static_cast<double>(std::numeric_limits<std::uint64_t>::max());
  setting.store = [&value](std::string_view text, const std::string& what) {
    value = parse_uint64(text, what);
  };
  return setting;
}

Setting& SettingSet::real(std::string name, double& value, double min, double max,
                          std::string help) {
  Setting& setting =
      add(std::move(name), SettingKind::real, "REAL", fmt::format("{}", value), std::move(help));
  setting.min = min;
  setting.max = max;
  setting.store = [&value, min, max](std::string_view text, const std::string& what) {
    value = parse_real(text, min, max, what);
  };
  return setting;
}

Setting& SettingSet::text(std::string name, std::string& value, std::string help) {
  Setting& setting = add(std::move(name), SettingKind::text, "TEXT", value, std::move(help));
  setting.store = [&value](std::string_view text, const std::string& what) {
    if (text.empty()) config_error("{}: empty text", what);
    value = text;
  };
  return setting;
}

Setting& SettingSet::choice(std::string name, std::string& value, std::vector<std::string> choices,
                            std::string help) {
  Setting& setting = add(std::move(name), SettingKind::choice,
                         fmt::format("{}", fmt::join(choices, "|")), value, std::move(help));
  setting.choices = std::move(choices);
  setting.store = [&value, &setting](std::string_view text, const std::string& what) {
    const auto& known = setting.choices;
    if (std::find(known.begin(), known.end(), text) == known.end()) {
      config_error("{}: \"{}\" is not one of {}", what, text, fmt::join(known, ", "));
    }
    value = text;
  };
  return setting;
}

Setting& SettingSet::integers(std::string name, std::vector<std::int64_t>& value, std::int64_t min,
                              std::int64_t max, std::string help) {
  Setting& setting = add(std::move(name), SettingKind::integers, "INT,INT,...",
                         fmt::format("{}", fmt::join(value, ",")), std::move(help));
  setting.min = static_cast<double>(min);
  setting.max = static_cast<double>(max);
  setting.store = [&value, min, max](std::string_view text, const std::string& what) {
    value = parse_int_list(text, min, max, what);
  };
  return setting;
}

Setting& SettingSet::reals(std::string name, std::vector<double>& value, double min, double max,
                           std::string help) {
  Setting& setting = add(std::move(name), SettingKind::reals, "REAL,REAL,...",
                         fmt::format("{}", fmt::join(value, ",")), std::move(help));
  setting.min = min;
  setting.max = max;
  setting.store = [&value, min, max](std::string_view text, const std::string& what) {
    value = parse_reals(text, min, max, what);
  };
  return setting;
}

Setting& SettingSet::texts(std::string name, std::vector<std::string>& values,
                           std::string type_name, std::string help) {
  Setting& setting =
      add(std::move(name), SettingKind::text, std::move(type_name), "", std::move(help));
  setting.repeats = true;
  setting.store = [&values](std::string_view text, const std::string& what) {
    if (text.empty()) config_error("{}: empty text", what);
    values.emplace_back(text);
  };
  return setting;
}

Setting* SettingSet::find(std::string_view name) {
  const auto found = std::find_if(settings_.begin(), settings_.end(),
                                  [&](const Setting& setting) { return setting.name == name; });
  return found == settings_.end() ? nullptr : &*found;
}

void SettingSet::set(Setting& setting, std::string_view text, const std::string& what) {
  if (setting.given && !setting.repeats) config_error("{}: given twice", what);
  setting.store(text, what);
  setting.given = true;
}

}  // namespace kvbench
