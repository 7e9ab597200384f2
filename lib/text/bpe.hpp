// Byte-pair encoding of single words as the reference libraries do it, in n log n.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/pair_table.hpp"
#include "text/vocabulary.hpp"

namespace kvbench {

// The `model` object of tokenizer.json, or a list of tokens by rank. Read-only after construction.
class Bpe {
 public:
  // Throws DataError for a malformed model and for an option that is not supported.
  Bpe(const nlohmann::json& model, const std::string& where);
  // tiktoken's rule: of all neighbours whose join is a token, those that make the one of lowest
  // rank join first; a word that is a token is that token. The token of rank r has the id
  // first_id + r. Throws DataError for a token given twice.
  Bpe(const std::vector<std::string>& ranked_tokens, std::int32_t first_id,
      const std::string& where);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  bool byte_fallback() const { return options_.byte_fallback; }
  // Characters that have no token become this, if the model names one.
  const std::optional<std::string>& unk_token() const { return options_.unk_token; }
  std::size_t merge_count() const { return merges_.size(); }
  // Under ignore_merges a word that is a token becomes it; not so this one (a special token).
  void exclude_word(std::int32_t id) { excluded_words_.insert(id); }

 private:
  friend class BpeEncoder;

  struct Options {
    std::optional<std::string> unk_token;
    bool fuse_unk = false;       // neighbouring unknown characters become one unk
    bool byte_fallback = false;  // unknown characters become <0x..> tokens, if all are there
    bool ignore_merges = false;  // a word that is a token is that token
  };

  static Options read_options(const nlohmann::json& model, const std::string& where);
  void read_merges(const nlohmann::json& merges);
  void add_merge(std::string_view left, std::string_view right, std::uint32_t rank);
  void add_merges_into(const std::string& token, std::uint32_t rank);
  void note_neighbours(std::string_view token);
  void build_character_tables();
  std::int32_t id_of_character(char32_t code_point) const {
    return code_point < character_ids_.size() ? character_ids_[code_point] : kNoId;
  }

  static constexpr std::int32_t kNoId = -1;

  std::string where_;
  std::unordered_set<std::int32_t> excluded_words_;
  Vocabulary vocabulary_;
  Options options_;
  std::optional<std::int32_t> unk_id_;
  PairTable merges_;                          // (left id, right id) -> rank << 32 | new id
  PairTable joined_;                          // pairs of characters that some merge joins
  std::vector<std::int32_t> character_ids_;   // [code point], kNoId where there is no token
  std::array<std::int32_t, 256> byte_ids_{};  // <0x00> ... <0xFF>
};

// Encodes the words of one text; it remembers the words it has seen. One per thread.
class BpeEncoder {
 public:
  explicit BpeEncoder(const Bpe& bpe) : bpe_(bpe) {}

  // Appends the ids of a word (valid UTF-8).
  void encode(std::string_view word, std::vector<std::int32_t>& ids);

 private:
  struct Symbol {
    std::int32_t id;
    std::int32_t previous;  // index of the symbol to the left, or -1
    std::int32_t next;      // index of the symbol to the right, or -1
    bool removed;
  };
  // A merge that may be made: of the symbol at `position` with the next one.
  struct Candidate {
    std::uint32_t rank;
    std::int32_t position;
    std::int32_t new_id;
  };
  struct LaterMerge {
    bool operator()(const Candidate& a, const Candidate& b) const {
      return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
    }
  };
  struct IdRange {
    std::size_t begin;
    std::size_t count;
  };

  void encode_cached(std::string_view part, std::vector<std::int32_t>& ids);
  void encode_part(std::string_view part, std::vector<std::int32_t>& ids);
  void split_into_symbols(std::string_view part);
  void add_symbol(std::int32_t id);
  bool add_bytes(std::string_view character);
  std::int32_t require_unk() const;
  void merge_symbols();
  void consider(std::int32_t position);

  const Bpe& bpe_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  std::unordered_map<std::string, IdRange, StringHash, std::equal_to<>> seen_;
  std::vector<std::int32_t> seen_ids_;
};

}  // namespace kvbench
