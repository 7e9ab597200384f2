// Strict command-line options over CLI11, whose own conversions take "-1" for 2^64 - 1, "010" for
// 8, "" for 0 and "nan" for a ratio. Text is converted by config/parse_number; a fault ends the
// parse with a message that names the option. An option given twice is a fault.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace kvbench {

// `value` keeps its content as the default (shown in help) when the option is not given.
CLI::Option* add_int(CLI::App& app, const std::string& name, std::int64_t& value, std::int64_t min,
                     std::int64_t max, const std::string& help);
CLI::Option* add_uint64(CLI::App& app, const std::string& name, std::uint64_t& value,
                        const std::string& help);
CLI::Option* add_real(CLI::App& app, const std::string& name, double& value, double min, double max,
                      const std::string& help);
CLI::Option* add_text(CLI::App& app, const std::string& name, std::string& value,
                      const std::string& help);
// One of `choices`.
CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value,
                        const std::vector<std::string>& choices, const std::string& help);
// "1,2,3": ids, each in [0, 2^31).
CLI::Option* add_id_list(CLI::App& app, const std::string& name, std::vector<std::int64_t>& value,
                         const std::string& help);

}  // namespace kvbench
