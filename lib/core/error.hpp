// Error types of kvbench and the helpers that throw them.
// A message says what was found, what was expected, where (file, tensor, key), and what to do.
// The program maps each type to its exit code; library code never ends the process.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace kvbench {

// Base of all errors that kvbench raises on purpose. `exit_code` is what the program returns.
class Error : public std::runtime_error {
 public:
  Error(int exit_code, const std::string& message)
      : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

// The request is wrong: an option, a policy string, a configuration file.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(2, message) {}
};

// The data is wrong: a checkpoint, a tokenizer, a corpus, non-finite numbers.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(3, message) {}
};

// The machine is in the way: no such device, out of memory, a failing driver call.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(4, message) {}
};

// A broken promise inside kvbench.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(1, message) {}
};

template <class... Args>
[[noreturn]] void config_error(fmt::format_string<Args...> text, Args&&... args) {
  throw ConfigError(fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void data_error(fmt::format_string<Args...> text, Args&&... args) {
  throw DataError(fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void device_error(fmt::format_string<Args...> text, Args&&... args) {
  throw DeviceError(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace kvbench

// Checks a contract between parts of kvbench, in every build type.
#define KVB_CHECK(condition, ...)                                                                  \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      throw ::kvbench::InternalError(                                                              \
          fmt::format("{}:{}: {}: {}", __FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__))); \
    }                                                                                              \
  } while (false)
