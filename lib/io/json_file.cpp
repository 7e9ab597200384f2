// Strict JSON over nlohmann's event (SAX) parser. Its own document parser keeps the last of two
// equal keys, skips a byte order mark and takes NUL for the end of the text, all silently.
#include "io/json_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "io/mapped_file.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

constexpr std::string_view kUtf8Bom = "\xEF\xBB\xBF";

// A text with a mark on the last byte that the parser has read, so that events have a place.
struct Source {
  std::string_view text;
  std::string where;
  JsonErrors errors;
  std::size_t last_read = 0;

  [[noreturn]] void fail_at(std::size_t at, const std::string& message) const {
    const std::string_view before = text.substr(0, at);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t newline = before.rfind('\n');
    const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    const std::string_view left = before.substr(line_start);
    // Columns count characters: UTF-8 continuation bytes add none.
    const auto column = 1 + std::count_if(left.begin(), left.end(), [](char c) {
                          return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
                        });
    throw_json_error(errors, where, fmt::format("line {}, column {}: {}", line, column, message));
  }
  [[noreturn]] void fail(const std::string& message) const { fail_at(last_read, message); }
};

// Feeds the parser and keeps Source::last_read up to date.
class SourceIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  SourceIterator(Source& source, std::size_t at) : source_(&source), at_(at) {}
  reference operator*() const {
    source_->last_read = at_;
    return source_->text[at_];
  }
  SourceIterator& operator++() {
    ++at_;
    return *this;
  }
  bool operator==(const SourceIterator& other) const { return at_ == other.at_; }
  bool operator!=(const SourceIterator& other) const { return at_ != other.at_; }

 private:
  Source* source_;
  std::size_t at_;
};

// Builds the document from parser events. The member names are nlohmann's.
class DocumentBuilder {
 public:
  DocumentBuilder(const Source& source, const JsonOptions& options)
      : source_(source), options_(options) {}

  bool null() { return add(json(nullptr)) != nullptr; }
  bool boolean(bool value) { return add(json(value)) != nullptr; }
  bool number_integer(std::int64_t value) { return add(json(value)) != nullptr; }
  bool number_unsigned(std::uint64_t value) { return add(json(value)) != nullptr; }
  bool number_float(double value, const std::string&) { return add(json(value)) != nullptr; }
  bool string(std::string& value) { return add(json(std::move(value))) != nullptr; }
  bool binary(json::binary_t&) { return false; }  // does not occur in JSON text

  bool start_object(std::size_t) { return open(json::object()); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(json::array()); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    auto& members = *open_.back()->get_ptr<json::object_t*>();
    const auto [member, added] = members.emplace(name, nullptr);
    if (!added) source_.fail(fmt::format("duplicate key {}", printable(name)));
    member_ = &member->second;
    return true;
  }

  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& exception) {
    // Drops nlohmann's "[json.exception...] " and its own "parse error at line, column: ".
    std::string_view message = exception.what();
    message.remove_prefix(std::min(message.size(), message.find("] ") + 2));
    if (message.starts_with("parse error at")) {
      message.remove_prefix(std::min(message.size(), message.find(": ") + 2));
    }
    source_.fail(printable(message, 200));
  }

  json take() { return std::move(root_); }

 private:
  // Puts the value where it belongs: the root, the open array, or the open object's current key.
  json* add(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (auto* elements = open_.back()->get_ptr<json::array_t*>()) {
      if (elements->size() >= options_.max_array_length) {
        source_.fail(fmt::format("array of more than {} elements", options_.max_array_length));
      }
      elements->push_back(std::move(value));
      return &elements->back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool open(json value) {
    if (open_.size() >= options_.max_depth) {
      source_.fail(fmt::format("nested deeper than {} levels", options_.max_depth));
    }
    open_.push_back(add(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const Source& source_;
  const JsonOptions& options_;
  json root_;
  std::vector<json*> open_;  // the containers around the current place, outermost first
  json* member_ = nullptr;   // where the value of the key just read goes
};

// Refuses what nlohmann would accept in silence, and drops one byte order mark where allowed.
void check_encoding(Source& source, const JsonOptions& options) {
  std::string_view& text = source.text;
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    source.fail("starts with a UTF-16 byte order mark (BOM); save the file as UTF-8");
  }
  if (text.starts_with(kUtf8Bom)) {
    if (!options.allow_bom) source.fail("starts with a byte order mark (BOM)");
    text.remove_prefix(kUtf8Bom.size());
    if (text.starts_with(kUtf8Bom)) source.fail("starts with two byte order marks (BOM)");
  }
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    source.fail_at(nul, "NUL byte (is the file UTF-16, or cut short?)");
  }
}

}  // namespace

void throw_json_error(JsonErrors errors, const std::string& where, const std::string& message) {
  const std::string text = where + ": " + message;
  if (errors == JsonErrors::config) throw ConfigError(text);
  throw DataError(text);
}

json parse_json(std::string_view text, const std::string& where, const JsonOptions& options) {
  Source source{text, where, options.errors};
  check_encoding(source, options);
  DocumentBuilder builder(source, options);
  const bool complete = json::sax_parse(SourceIterator(source, 0),
                                        SourceIterator(source, source.text.size()), &builder);
  KVB_CHECK(complete, "{}: the parser stopped without an error", where);
  return builder.take();
}

json read_json_file(const std::filesystem::path& path, const JsonOptions& options) {
  try {
    const MappedFile file = MappedFile::open(path);
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    return parse_json(text, path.string(), options);
  } catch (const DataError& error) {
    // A file that cannot be opened is the fault of whoever named it.
    if (options.errors == JsonErrors::config) throw ConfigError(error.what());
    throw;
  }
}

}  // namespace kvbench
