// Definitions of jinja_json.hpp.
#include "text/jinja_json.hpp"

#include <fmt/core.h>

#include "text/jinja_strings.hpp"

namespace kvbench {
namespace {

class Writer {
 public:
  Writer(int indent, std::size_t most_bytes, std::string& out)
      : indent_(indent), most_bytes_(most_bytes), out_(out) {}

  const char* write(const JinjaValue& value, int level) {
    if (out_.size() > most_bytes_) return "a text grows too large";
    if (value.is_none()) {
      out_ += "null";
    } else if (const bool* truth = value.as<bool>()) {
      out_ += *truth ? "true" : "false";
    } else if (const std::string* text = value.text()) {
      out_ += json_string(*text);
    } else if (const JinjaList* list = value.list()) {
      return write_list(*list, level);
    } else if (const JinjaDict* dict = value.dict()) {
      return write_dict(*dict, level);
    } else if (!value.is_undefined() && print(value, out_)) {
      return nullptr;  // a number
    } else {
      return "tojson of something that JSON has no word for";
    }
    return nullptr;
  }

 private:
  void new_line(int level) {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(indent_) * static_cast<std::size_t>(level), ' ');
  }

  void separate(bool first, int level) {
    if (!first) out_ += indent_ < 0 ? ", " : ",";
    new_line(level);
  }

  const char* write_list(const JinjaList& list, int level) {
    out_ += '[';
    for (std::size_t i = 0; i < list.size(); ++i) {
      separate(i == 0, level + 1);
      if (const char* fault = write(list[i], level + 1)) return fault;
    }
    if (!list.empty()) new_line(level);
    out_ += ']';
    return nullptr;
  }

  const char* write_dict(const JinjaDict& dict, int level) {
    out_ += '{';
    for (std::size_t i = 0; i < dict.size(); ++i) {
      separate(i == 0, level + 1);
      out_ += json_string(dict[i].first);
      out_ += ": ";
      if (const char* fault = write(dict[i].second, level + 1)) return fault;
    }
    if (!dict.empty()) new_line(level);
    out_ += '}';
    return nullptr;
  }

  int indent_;
  std::size_t most_bytes_;
  std::string& out_;
};

}  // namespace

const char* append_json(const JinjaValue& value, int indent, std::size_t most_bytes,
                        std::string& out) {
  return Writer(indent, most_bytes, out).write(value, 0);
}

}  // namespace kvbench
