// Reading of tokenizer.json's nested components, each an object with a "type".
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "io/json_reader.hpp"
#include "text/regex.hpp"

namespace kvbench {

// One component: its object, and where it stands in the file.
class JsonComponent {
 public:
  // `key` is the path inside the file, e.g. "pre_tokenizer".
  JsonComponent(const nlohmann::json& value, std::string file, std::string key);

  const std::string& type() const { return type_; }
  // Members that are null count as absent.
  const JsonReader& members() const { return members_; }
  // "file: key pre_tokenizer.pretokenizers[1]"
  std::string where() const;

  // Calls `use` for this component, or, if it is a Sequence, for each in its list (also nested).
  void for_each(std::string_view list_key,
                const std::function<void(const JsonComponent&)>& use) const;
  // The member `pattern`: {"String": text} or {"Regex": pattern}.
  Regex pattern() const;
  // As pattern(), for components that know only strings.
  std::string string_pattern() const;

  // Throws DataError: this type is not supported.
  [[noreturn]] void unsupported_type(std::string_view supported) const;
  [[noreturn]] void fail(std::string_view message) const;

 private:
  const nlohmann::json* value_;
  std::string file_;
  std::string key_;
  JsonReader members_;
  std::string type_;
};

}  // namespace kvbench
