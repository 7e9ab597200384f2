// Reading and checking of tekken.json.
#include "text/tekken_file.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_set>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "io/json_reader.hpp"
#include "text/base64.hpp"
#include "text/vocabulary.hpp"

namespace kvbench {
namespace {

// Versions of the format. Those up to v7 may leave their special tokens to the reader.
constexpr std::array<std::string_view, 7> kVersions{"v1", "v2", "v3", "v7", "v11", "v13", "v15"};
constexpr std::size_t kVersionsWithDefaults = 4;
constexpr std::array<std::string_view, 20> kDefaultSpecials{"<unk>",
                                                            "<s>",
                                                            "</s>",
                                                            "[INST]",
                                                            "[/INST]",
                                                            "[AVAILABLE_TOOLS]",
                                                            "[/AVAILABLE_TOOLS]",
                                                            "[TOOL_RESULTS]",
                                                            "[/TOOL_RESULTS]",
                                                            "[TOOL_CALLS]",
                                                            "[IMG]",
                                                            "<pad>",
                                                            "[IMG_BREAK]",
                                                            "[IMG_END]",
                                                            "[PREFIX]",
                                                            "[MIDDLE]",
                                                            "[SUFFIX]",
                                                            "[SYSTEM_PROMPT]",
                                                            "[/SYSTEM_PROMPT]",
                                                            "[TOOL_CONTENT]"};
constexpr std::size_t kByteCount = 256;

class TekkenReader {
 public:
  TekkenReader(const nlohmann::json& document, const std::string& file)
      : file_(file),
        root_(document, file, JsonErrors::data, NullRule::as_absent),
        config_(root_.require_object("config")) {}

  TekkenFile read() {
    TekkenFile result;
    result.version = read_version();
    result.pattern = config_.require_string("pattern");
    const auto n_specials =
        static_cast<std::size_t>(config_.require_int("default_num_special_tokens", 0, kMaxTokenId));
    const auto n_ids =
        static_cast<std::size_t>(config_.require_int("default_vocab_size", 1, kMaxTokenId + 1));
    if (n_ids < n_specials + kByteCount) {
      config_.fail("default_vocab_size",
                   fmt::format("{} ids leave no room for {} special tokens and 256 bytes", n_ids,
                               n_specials));
    }
    add_specials(names_of_specials(result.version), n_specials, result);
    read_tokens(n_ids - n_specials, result);
    return result;
  }

 private:
  std::string read_version() const {
    std::string version = config_.require_string("version");
    if (std::ranges::find(kVersions, version) != kVersions.end()) return version;
    std::string known;
    for (const std::string_view name : kVersions) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
    }
    config_.fail("version",
                 fmt::format("\"{}\" is not supported; known: {}", printable(version), known));
  }

  // A list of the file, of type array; nullptr when absent.
  const nlohmann::json* list(std::string_view key) const {
    const nlohmann::json* value = root_.find(key);
    if (value == nullptr || value->is_null()) return nullptr;
    if (!value->is_array()) {
      root_.fail(key, fmt::format("expected an array, found {}", value->type_name()));
    }
    return value;
  }

  JsonReader entry(const nlohmann::json& value, std::string_view key, std::size_t index) const {
    return {value, fmt::format("{}: key {}[{}]", file_, key, index), JsonErrors::data};
  }

  // The place in the list is the rank; a file that says otherwise was edited.
  static void check_rank(const JsonReader& reader, std::size_t index) {
    const std::int64_t rank = reader.require_int("rank", 0, kMaxTokenId);
    if (rank != static_cast<std::int64_t>(index)) {
      reader.fail("rank", fmt::format("is {}, expected {}, its place in the list", rank, index));
    }
  }

  std::vector<std::string> names_of_specials(std::string_view version) const {
    const nlohmann::json* given = list("special_tokens");
    if (given == nullptr) {
      const auto* end = kVersions.begin() + kVersionsWithDefaults;
      if (std::find(kVersions.begin(), end, version) == end) {
        root_.fail("special_tokens", fmt::format("missing, which {} does not allow", version));
      }
      return {kDefaultSpecials.begin(), kDefaultSpecials.end()};
    }
    std::vector<std::string> names;
    for (const nlohmann::json& value : *given) {
      const JsonReader reader = entry(value, "special_tokens", names.size());
      check_rank(reader, names.size());
      names.push_back(reader.require_string("token_str"));
      if (names.back().empty()) reader.fail("token_str", "is empty");
    }
    return names;
  }

  // Ids without a name of their own are called <SPECIAL_id>.
  void add_specials(std::vector<std::string> names, std::size_t count, TekkenFile& result) const {
    if (names.size() > count) {
      config_.fail("default_num_special_tokens",
                   fmt::format("is {}, but there are {} special tokens", count, names.size()));
    }
    for (std::size_t id = names.size(); id < count; ++id) {
      names.push_back(fmt::format("<SPECIAL_{}>", id));
    }
    std::unordered_set<std::string> seen;
    for (std::size_t id = 0; id < count; ++id) {
      if (!seen.insert(names[id]).second) {
        root_.fail("special_tokens", fmt::format("\"{}\" is there twice", printable(names[id])));
      }
      AddedToken token;
      token.id = static_cast<std::int32_t>(id);
      token.content = std::move(names[id]);
      token.special = true;
      result.specials.push_back(std::move(token));
    }
  }

  void read_tokens(std::size_t count, TekkenFile& result) const {
    const nlohmann::json* vocab = list("vocab");
    const std::size_t found = vocab == nullptr ? 0 : vocab->size();
    if (found < count) {
      root_.fail("vocab", fmt::format("has {} tokens, but config.default_vocab_size asks for {}",
                                      found, count));
    }
    result.tokens.reserve(count);
    for (std::size_t rank = 0; rank < count; ++rank) {
      const JsonReader reader = entry((*vocab)[rank], "vocab", rank);
      check_rank(reader, rank);
      const std::string written = reader.require_string("token_bytes");
      auto bytes = decode_base64(written);
      if (!bytes || bytes->empty()) {
        reader.fail("token_bytes", fmt::format("expected base64 of at least one byte, found \"{}\"",
                                               printable(written)));
      }
      if (rank < kByteCount && *bytes != std::string(1, static_cast<char>(rank))) {
        reader.fail("token_bytes", fmt::format("\"{}\" is not the byte 0x{:02x}: the first 256 "
                                               "tokens are the single bytes",
                                               printable(written), rank));
      }
      result.tokens.push_back(*std::move(bytes));
    }
  }

  const std::string& file_;
  JsonReader root_;
  JsonReader config_;
};

}  // namespace

TekkenFile read_tekken_file(const nlohmann::json& document, const std::string& file) {
  return TekkenReader(document, file).read();
}

}  // namespace kvbench
