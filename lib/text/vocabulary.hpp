// The tokens of a BPE model: spelling to id and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvbench {

// Hash of string and string_view alike, so that a look-up copies nothing.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

// Ids above this are refused: no model is that large, and the table by id is dense.
inline constexpr std::int32_t kMaxTokenId = (1 << 24) - 1;

class Vocabulary {
 public:
  // `vocab` is {"token": id, ...}. Throws DataError for other values and for an id given twice.
  Vocabulary(const nlohmann::json& vocab, const std::string& where);
  // Tokens that have the ids from `first_id` on, in order. Throws DataError for one given twice.
  Vocabulary(const std::vector<std::string>& tokens, std::int32_t first_id,
             const std::string& where);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::optional<std::int32_t> id_of(std::string_view token) const;
  // nullptr for an id that no token has.
  const std::string* token_of(std::int32_t id) const;

  std::size_t size() const { return ids_.size(); }
  // One more than the highest id.
  std::int32_t id_limit() const { return static_cast<std::int32_t>(tokens_.size()); }

 private:
  std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // [id], into ids_
};

}  // namespace kvbench
