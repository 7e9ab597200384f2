// Filters and methods of chat templates: one row for each name.
#include <fmt/core.h>

#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "text/jinja_json.hpp"
#include "text/jinja_rows.hpp"
#include "text/jinja_strings.hpp"

namespace kvbench {
namespace {

std::string printed(const JinjaCall& call, const JinjaValue& value) {
  std::string out;
  if (!print(value, out)) call.fail(fmt::format("printing {} is not supported", value.kind()));
  return out;
}

JinjaValue strings(std::vector<std::string> parts) {
  JinjaList list;
  for (std::string& part : parts) list.emplace_back(std::move(part));
  return list;
}

std::optional<std::string_view> optional_text(const JinjaCall& call, const std::string& name) {
  const JinjaValue* given = call.argument(0, name);
  if (given == nullptr || given->is_none()) return std::nullopt;
  return call.text_argument(0, name);
}

JinjaValue items_of(const JinjaCall& call, bool keys, bool values) {
  call.allow(0);
  const JinjaDict* dict = call.self.dict();
  if (dict == nullptr) call.fail(fmt::format("items of {}", call.self.kind()));
  JinjaList list;
  for (const auto& [key, value] : *dict) {
    if (keys && values) {
      list.emplace_back(JinjaList{JinjaValue(key), value});
    } else {
      list.push_back(keys ? JinjaValue(key) : value);
    }
  }
  return list;
}

std::int64_t length_of(const JinjaCall& call) {
  call.allow(0);
  if (call.self.is_undefined()) return 0;
  if (const std::string* text = call.self.text()) return std::ssize(characters(*text));
  if (const JinjaList* list = call.self.list()) return std::ssize(*list);
  if (const JinjaDict* dict = call.self.dict()) return std::ssize(*dict);
  call.fail(fmt::format("the length of {}", call.self.kind()));
}

JinjaValue edge_of(const JinjaCall& call, bool first) {
  call.allow(0);
  const JinjaList* list = call.self.list();
  if (list == nullptr) call.fail(fmt::format("an end of {}", call.self.kind()));
  if (list->empty()) return {};
  return first ? list->front() : list->back();
}

JinjaValue default_of(const JinjaCall& call) {
  call.allow(2);
  const JinjaValue* fallback = call.argument(0, "default_value");
  const JinjaValue* for_false = call.argument(1, "boolean");
  const bool missing = call.self.is_undefined() ||
                       (for_false != nullptr && for_false->truth() && !call.self.truth());
  if (!missing) return call.self;
  return fallback == nullptr ? JinjaValue("") : *fallback;
}

JinjaValue join_of(const JinjaCall& call) {
  call.allow(1);
  const JinjaList* list = call.self.list();
  if (list == nullptr) call.fail(fmt::format("joining {}", call.self.kind()));
  const JinjaValue* between = call.argument(0, "d");
  std::string out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (i > 0 && between != nullptr) out += printed(call, *between);
    out += printed(call, (*list)[i]);
    if (out.size() > kMostJinjaBytes) break;
  }
  return out;
}

JinjaValue to_integer(const JinjaCall& call) {
  call.allow(1);
  double number = 0.0;
  if (call.self.number(number)) {
    if (!(std::abs(number) < 9e18)) call.fail("a number is out of range");
    return static_cast<std::int64_t>(number);
  }
  call.fail(fmt::format("int of {} is not supported", call.self.kind()));
}

JinjaValue to_list(const JinjaCall& call) {
  call.allow(0);
  if (call.self.list() != nullptr) return call.self;
  if (call.self.dict() != nullptr) return items_of(call, true, false);
  JinjaList list;
  for (const std::string_view part : characters(call.self_text())) {
    list.emplace_back(std::string(part));
  }
  return list;
}

JinjaValue replace_of(const JinjaCall& call) {
  call.allow(2);
  const std::string& text = call.self_text();
  const std::string& from = call.text_argument(0, "old");
  const std::string& to = call.text_argument(1, "new");
  const std::size_t cuts = from.empty() ? text.size() + 1 : text.size() / from.size();
  if (text.size() + cuts * to.size() > 8 * kMostJinjaBytes) call.fail("a text grows too large");
  return replace_all(text, from, to);
}

JinjaValue strip_of(const JinjaCall& call, StripSide side) {
  call.allow(1);
  return strip(call.self_text(), side, optional_text(call, "chars"));
}

JinjaValue case_of(const JinjaCall& call, LetterCase letter_case) {
  call.allow(0);
  return with_case(call.self_text(), letter_case);
}

JinjaValue to_json(const JinjaCall& call) {
  call.allow(1);
  std::int64_t indent = -1;
  const JinjaValue* given = call.argument(0, "indent");
  if (given != nullptr && !given->is_none()) indent = integer_argument(call, *given);
  if (indent > 16) call.fail("an indent of more than 16");
  std::string out;
  const char* fault = append_json(call.self, static_cast<int>(indent), kMostJinjaBytes, out);
  if (fault != nullptr) call.fail(fault);
  return out;
}

JinjaValue split_of(const JinjaCall& call) {
  call.allow(2);
  const auto separator = optional_text(call, "sep");
  if (separator && separator->empty()) call.fail("an empty separator");
  const JinjaValue* most = call.argument(1, "maxsplit");
  return strings(
      split(call.self_text(), separator, most == nullptr ? -1 : integer_argument(call, *most)));
}

JinjaValue get_of(const JinjaCall& call) {
  call.allow(2);
  const JinjaDict* dict = call.self.dict();
  if (dict == nullptr) call.fail(fmt::format("get of {}", call.self.kind()));
  const JinjaValue* found = find_member(*dict, call.text_argument(0, "key"));
  const JinjaValue* fallback = call.argument(1, "default");
  if (found != nullptr) return *found;
  return fallback == nullptr ? JinjaValue(JinjaNone{}) : *fallback;
}

JinjaValue starts_or_ends(const JinjaCall& call, bool starts) {
  call.allow(1);
  const std::string& part = call.text_argument(0, "text");
  return starts ? call.self_text().starts_with(part) : call.self_text().ends_with(part);
}

constexpr std::array kFilters{
    JinjaRow{"trim", [](const JinjaCall& c) { return strip_of(c, StripSide::both); }},
    JinjaRow{"upper", [](const JinjaCall& c) { return case_of(c, LetterCase::upper); }},
    JinjaRow{"lower", [](const JinjaCall& c) { return case_of(c, LetterCase::lower); }},
    JinjaRow{"title", [](const JinjaCall& c) { return case_of(c, LetterCase::title); }},
    JinjaRow{"capitalize", [](const JinjaCall& c) { return case_of(c, LetterCase::capital); }},
    JinjaRow{"tojson", to_json},
    JinjaRow{"default", default_of},
    JinjaRow{"d", default_of},
    JinjaRow{"length", [](const JinjaCall& c) { return JinjaValue(length_of(c)); }},
    JinjaRow{"count", [](const JinjaCall& c) { return JinjaValue(length_of(c)); }},
    JinjaRow{"first", [](const JinjaCall& c) { return edge_of(c, true); }},
    JinjaRow{"last", [](const JinjaCall& c) { return edge_of(c, false); }},
    JinjaRow{"join", join_of},
    JinjaRow{"replace", replace_of},
    JinjaRow{"string", [](const JinjaCall& c) { return JinjaValue(printed(c, c.self)); }},
    JinjaRow{"int", to_integer},
    JinjaRow{"list", to_list},
    JinjaRow{"items", [](const JinjaCall& c) { return items_of(c, true, true); }},
    JinjaRow{"safe", [](const JinjaCall& c) { return c.self; }},
};

constexpr std::array kMethods{
    JinjaRow{"strip", [](const JinjaCall& c) { return strip_of(c, StripSide::both); }},
    JinjaRow{"lstrip", [](const JinjaCall& c) { return strip_of(c, StripSide::left); }},
    JinjaRow{"rstrip", [](const JinjaCall& c) { return strip_of(c, StripSide::right); }},
    JinjaRow{"upper", [](const JinjaCall& c) { return case_of(c, LetterCase::upper); }},
    JinjaRow{"lower", [](const JinjaCall& c) { return case_of(c, LetterCase::lower); }},
    JinjaRow{"title", [](const JinjaCall& c) { return case_of(c, LetterCase::title); }},
    JinjaRow{"capitalize", [](const JinjaCall& c) { return case_of(c, LetterCase::capital); }},
    JinjaRow{"startswith", [](const JinjaCall& c) { return starts_or_ends(c, true); }},
    JinjaRow{"endswith", [](const JinjaCall& c) { return starts_or_ends(c, false); }},
    JinjaRow{"split", split_of},
    JinjaRow{"replace", replace_of},
    JinjaRow{"get", get_of},
    JinjaRow{"items", [](const JinjaCall& c) { return items_of(c, true, true); }},
    JinjaRow{"keys", [](const JinjaCall& c) { return items_of(c, true, false); }},
    JinjaRow{"values", [](const JinjaCall& c) { return items_of(c, false, true); }},
};

}  // namespace

JinjaValue apply_jinja_filter(const JinjaCall& call) {
  return apply_jinja_row(kFilters, call, "filter");
}

JinjaValue call_jinja_method(const JinjaCall& call) {
  return apply_jinja_row(kMethods, call, "method");
}

}  // namespace kvbench
