// Decoder steps: ByteLevel, ByteFallback, Replace, Metaspace, Fuse, Strip.
#include "text/decoder.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "text/byte_symbols.hpp"
#include "text/json_component.hpp"
#include "text/utf8.hpp"

namespace kvbench {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  while (true) {
    const std::size_t at = text.find(from);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    out.append(to);
    text.remove_prefix(at + from.size());
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The byte that "<0x0A>" spells.
std::optional<char> spelled_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const int high = hex_digit(token[3]);
  const int low = hex_digit(token[4]);
  if (low < 0) return std::nullopt;
  if (high < 0) {
    // Rust's number parser, which the reference uses, takes a sign.
    return token[3] == '+' ? std::optional<char>(static_cast<char>(low)) : std::nullopt;
  }
  return static_cast<char>(high * 16 + low);
}

}  // namespace

Decoder::Decoder(const nlohmann::json& spec, const std::string& file) {
  if (spec.is_null()) {
    separator_.push_back(' ');
    return;
  }
  const JsonComponent root(spec, file, "decoder");
  root.for_each("decoders", [this](const JsonComponent& step) { add_step(step); });
  if (replaces_after_bytes_ && !byte_level_) {
    root.fail("Replace or Metaspace after ByteFallback or Fuse is supported only before ByteLevel");
  }
}

void Decoder::add_step(const JsonComponent& step) {
  const std::string& type = step.type();
  if (strip_.count > 0 || byte_level_) {
    const bool harmless = type == "Fuse" || (type == "Strip" && strip_.count == 0);
    if (!harmless) step.fail(fmt::format("type \"{}\" is not supported so late", type));
  }
  if (type == "Fuse") {
    fused_ = true;
  } else if (type == "ByteLevel") {
    byte_level_ = true;
    byte_level_after_fuse_ = fused_;
  } else if (type == "ByteFallback") {
    if (fused_) step.fail("ByteFallback after Fuse is not supported");
    byte_fallback_ = true;
  } else if (type == "Replace" || type == "Metaspace") {
    add_replacement(step);
  } else if (type == "Strip") {
    add_strip(step);
  } else {
    step.unsupported_type("ByteLevel, ByteFallback, Replace, Metaspace, Fuse, Strip, Sequence");
  }
}

void Decoder::add_replacement(const JsonComponent& step) {
  replaces_after_bytes_ = replaces_after_bytes_ || byte_fallback_ || fused_;
  if (step.type() == "Replace") {
    std::string from = step.string_pattern();
    if (from.empty()) step.fail("an empty pattern is not supported");
    replacements_.push_back({std::move(from), step.members().require_string("content"), false});
    return;
  }
  const bool prefix = step.members().optional_bool("add_prefix_space").value_or(true) &&
                      step.members().optional_string("prepend_scheme") != "never";
  std::string from = step.members().require_string("replacement");
  if (from.empty()) step.fail("an empty replacement is not supported");
  replacements_.push_back({std::move(from), std::string(1, ' '), prefix});
}

void Decoder::add_strip(const JsonComponent& step) {
  if (!fused_ && !byte_level_) step.fail("Strip is supported only after Fuse or ByteLevel");
  if (step.members().require_int("stop", 0, 1 << 20) != 0) {
    step.fail("Strip with stop > 0 is not supported");
  }
  strip_.count = static_cast<std::size_t>(step.members().require_int("start", 0, 1 << 20));
  strip_.text = step.members().require_string("content");
  if (strip_.text.empty()) step.fail("Strip with empty content is not supported");
}

BadBytes Decoder::bad_bytes() const {
  return byte_level_ ? BadBytes::each_part : BadBytes::whole_run;
}

std::string Decoder::replaced(std::string_view token, bool first) const {
  std::string text(token);
  for (const Replacement& replacement : replacements_) {
    const bool drop = first && replacement.drop_in_first;
    text = replace_all(text, replacement.from, drop ? std::string_view() : replacement.to);
  }
  return text;
}

DecodedToken Decoder::decode(std::string_view token, bool first) const {
  if (byte_fallback_) {
    if (const auto byte = spelled_byte(token)) return {std::string(1, *byte), true};
  }
  std::string text = replaced(token, first);
  if (byte_level_) return {bytes_of_token(text), true};
  return {std::move(text), false};
}

bool Decoder::exact(std::string_view token) const {
  if (!byte_level_after_fuse_) return true;
  if (byte_fallback_ && spelled_byte(token)) return false;
  return replaced(token, false) == token && spelled_in_byte_symbols(token);
}

}  // namespace kvbench
