// Running the built program as a user does, and what it left: both outputs and the exit code.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temp_dir.hpp"

namespace kvbench::test {

struct ProgramResult {
  int exit_code;  // 128 + signal where a signal ended it
  std::string out;
  std::string err;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void append_quoted(std::string& command, const std::string& text) {
  command += '\'';
  for (const char c : text) {
    if (c == '\'') command += "'\\'";  // ends the quotation, gives a quote, begins another
    command += c;
  }
  command += '\'';
}

// `environment` is put before the command as it is: "LC_ALL=C".
inline ProgramResult run_program(const std::vector<std::string>& arguments,
                                 const std::string& environment = "") {
  const TempDir output;
  std::string command = environment;
  command += ' ';
  append_quoted(command, KVBENCH_PROGRAM);
  for (const std::string& argument : arguments) {
    command += ' ';
    append_quoted(command, argument);
  }
  command += " > ";
  append_quoted(command, (output.path() / "out").string());
  command += " 2> ";
  append_quoted(command, (output.path() / "err").string());
  command += " < /dev/null";
  const int status = std::system(command.c_str());
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, read_text(output.path() / "out"), read_text(output.path() / "err")};
}

// The lines of a text, without their ends.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      lines.push_back(line);
      line.clear();
    } else {
      line += c;
    }
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

// An error as every fault must be told: the exit code, one line that begins with the program's
// name, and nothing that looks like a result.
inline std::string fault_of(const ProgramResult& result, int exit_code) {
  const auto lines = lines_of(result.err);
  std::string message;
  for (const std::string& line : lines) {
    if (line.rfind("kvbench: error: ", 0) == 0) message += line;
  }
  if (result.exit_code != exit_code) {
    return "exit code " + std::to_string(result.exit_code) + ": " + result.err;
  }
  return message.empty() ? "no message: " + result.err : message;
}

}  // namespace kvbench::test
