// A value in a chat template: what Python would have there. Lists and dictionaries are shared, as
// Python's are, and never change; a namespace does, and so stands in no list.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvbench {

class JinjaValue;
using JinjaList = std::vector<JinjaValue>;
// In order of insertion; keys are strings.
using JinjaDict = std::vector<std::pair<std::string, JinjaValue>>;

struct JinjaUndefined {};
struct JinjaNone {};
struct JinjaNamespace {
  std::shared_ptr<JinjaDict> members;
};
struct JinjaFunction {  // one of those that templates are given: raise_exception, namespace, range
  std::string name;
};

class JinjaValue {
 public:
  JinjaValue() = default;  // undefined
  JinjaValue(JinjaNone none) : value_(none) {}
  JinjaValue(bool truth) : value_(truth) {}
  JinjaValue(std::int64_t number) : value_(number) {}
  JinjaValue(double number) : value_(number) {}
  JinjaValue(std::string text) : value_(std::move(text)) {}
  JinjaValue(const char* text) : value_(std::string(text)) {}
  JinjaValue(JinjaList list);
  JinjaValue(JinjaDict dict);
  JinjaValue(JinjaNamespace names) : value_(std::move(names)) {}
  JinjaValue(JinjaFunction function) : value_(std::move(function)) {}

  template <class T>
  const T* as() const {
    return std::get_if<T>(&value_);
  }
  bool is_undefined() const { return as<JinjaUndefined>() != nullptr; }
  bool is_none() const { return as<JinjaNone>() != nullptr; }
  const std::string* text() const { return as<std::string>(); }
  // A bool counts as a number, as in Python.
  bool integer(std::int64_t& number) const;
  bool number(double& number) const;
  const JinjaList* list() const;
  const JinjaDict* dict() const;
  JinjaDict* names();  // of a namespace
  const JinjaDict* names() const;
  // Lists and dictionaries within each other, this one counted.
  int depth() const;

  bool truth() const;
  // "a string", "a list", for messages.
  const char* kind() const;

 private:
  // With the depth, so that nothing has to walk down to know it.
  struct List {
    JinjaList items;
    int depth;
  };
  struct Dict {
    JinjaDict members;
    int depth;
  };

  std::variant<JinjaUndefined, JinjaNone, bool, std::int64_t, double, std::string,
               std::shared_ptr<List>, std::shared_ptr<Dict>, JinjaNamespace, JinjaFunction>
      value_;
};

// False for two lists and for two dictionaries, which is not supported; else `result` is set.
bool compare_equal(const JinjaValue& a, const JinjaValue& b, bool& result);
const JinjaValue* find_member(const JinjaDict& dict, const std::string& key);
void set_member(JinjaDict& dict, const std::string& key, JinjaValue value);
// As {{ value }} prints it. False for a list, a dictionary or a function, which is not supported.
bool print(const JinjaValue& value, std::string& out);

}  // namespace kvbench
