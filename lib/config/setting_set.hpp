// The settings of a command or task: each declared once, with its range, default and help, and
// bound to the field that holds it. Command lines, JSON configurations and listings are made from
// this.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kvbench {

enum class SettingKind : std::uint8_t {
  flag,      // "true" or "false"
  integer,   // within [min, max]
  real,      // within [min, max], finite
  text,      // not empty
  choice,    // one of `choices`
  integers,  // "1,2,3", each within [min, max]
  reals      // "0.1,0.5", each within [min, max]
};

// What the text of a setting names: in a configuration file, paths are relative to that file.
enum class PathKind : std::uint8_t {
  none,
  file,         // or a folder
  file_or_name  // or the bare name of something else, such as a corpus manifest
};

struct Setting {
  std::string name;  // max_tokens: a key in JSON, --max-tokens on a command line
  SettingKind kind = SettingKind::text;
  std::string type_name;             // what help shows: "INT", "f32|bf16"
  std::string fallback;              // default as text; empty: none
  std::vector<std::string> choices;  // kind choice
  double min = 0.0;                  // kinds of numbers: inclusive range
  double max = 0.0;
  std::string help;
  bool repeats = false;   // several values, each set in turn
  bool required = false;  // there is no default
  bool given = false;     // has been set
  PathKind path = PathKind::none;
  std::int64_t dry_run = 0;   // integers: a dry run takes at most this, of a list one; 0: as it is
  bool zero_is_all = false;   // integers: 0 stands for everything there is
  bool open_choices = false;  // the choices depend on the build: a schema does not list them
  // Checks a value and stores it. ConfigError begins with `what`.
  std::function<void(std::string_view text, const std::string& what)> store;
};

// Refers to the fields, which must outlive it. Every declaration returns the setting, so that
// `required` can be said of it. A field keeps its content as the default.
class SettingSet {
 public:
  Setting& flag(std::string name, bool& value, std::string help);
  Setting& integer(std::string name, std::int64_t& value, std::int64_t min, std::int64_t max,
                   std::string help);
  // 0 to 2^64 - 1.
  Setting& seed(std::string name, std::uint64_t& value, std::string help);
  Setting& real(std::string name, double& value, double min, double max, std::string help);
  Setting& text(std::string name, std::string& value, std::string help);
  Setting& choice(std::string name, std::string& value, std::vector<std::string> choices,
                  std::string help);
  Setting& integers(std::string name, std::vector<std::int64_t>& value, std::int64_t min,
                    std::int64_t max, std::string help);
  Setting& reals(std::string name, std::vector<double>& value, double min, double max,
                 std::string help);
  // Texts, one for each time the setting is given.
  Setting& texts(std::string name, std::vector<std::string>& values, std::string type_name,
                 std::string help);

  const std::deque<Setting>& all() const { return settings_; }
  std::deque<Setting>& all() { return settings_; }
  // Null for an unknown name.
  Setting* find(std::string_view name);

  // Sets one value. `what` names the setting in errors. ConfigError for a bad value, and for a
  // second one of a setting that does not repeat.
  static void set(Setting& setting, std::string_view text, const std::string& what);

 private:
  Setting& add(std::string name, SettingKind kind, std::string type_name, std::string fallback,
               std::string help);

  std::deque<Setting> settings_;  // references to settings stay valid
};

}  // namespace kvbench
