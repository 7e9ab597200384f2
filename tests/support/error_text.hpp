// The message of the error that a call must raise.
#pragma once

#include <string>

namespace kvbench::test {

// Calls `call` and returns the message of the ErrorType it throws; "no error" when it returns.
// Any other exception passes through and fails the test.
template <class ErrorType, class Call>
std::string error_text(Call&& call) {
  try {
    call();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "no error";
}

// For CHECKs whose failure should show the message: CHECK(contains(text, "part")).
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace kvbench::test
