// Byte-pair encoding: a heap of possible merges over a linked list of symbols.
// Order of merges: lower rank first, then further left, as in the reference library.
#include "text/bpe.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/json_reader.hpp"
#include "text/utf8.hpp"

namespace kvbench {
namespace {

// Longer words are cut where no merge can reach across; shorter ones are not worth the search.
constexpr std::size_t kCutBytes = 64;
// Longer words are not remembered: they hardly come again.
constexpr std::size_t kRememberBytes = 128;

// Calls `use(code point, bytes)` for each character of a valid text.
template <class Use>
void for_each_character(std::string_view text, Use use) {
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    use(step.code_point, text.substr(0, step.byte_count));
    text.remove_prefix(step.byte_count);
  }
}

JsonReader reader_of(const nlohmann::json& model, const std::string& where) {
  return {model, where, JsonErrors::data, NullRule::as_absent};
}

const nlohmann::json& require(const nlohmann::json& model, std::string_view key,
                              const std::string& where) {
  const auto* value = reader_of(model, where).find(key);
  if (value == nullptr) data_error("{}: key model.{}: missing", where, key);
  return *value;
}

}  // namespace

Bpe::Bpe(const nlohmann::json& model, const std::string& where)
    : where_(where),
      vocabulary_(require(model, "vocab", where), where),
      options_(read_options(model, where)) {
  read_merges(require(model, "merges", where));
  if (options_.unk_token) unk_id_ = vocabulary_.id_of(*options_.unk_token);
  build_character_tables();
}

Bpe::Bpe(const std::vector<std::string>& ranked_tokens, std::int32_t first_id,
         const std::string& where)
    : where_(where), vocabulary_(ranked_tokens, first_id, where) {
  options_.ignore_merges = true;
  merges_ = PairTable(ranked_tokens.size() * 3);  // what the published vocabularies come to
  std::uint32_t rank = 0;
  for (const std::string& token : ranked_tokens) add_merges_into(token, rank++);
  build_character_tables();
}

Bpe::Options Bpe::read_options(const nlohmann::json& model, const std::string& where) {
  const JsonReader reader = reader_of(model, where);
  if (reader.optional_double("dropout", 0, 1).value_or(0) != 0) {
    reader.fail("dropout", "is not supported: ids would be random");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!reader.optional_string(key).value_or("").empty()) reader.fail(key, "is not supported");
  }
  Options options;
  options.unk_token = reader.optional_string("unk_token");
  options.fuse_unk = reader.optional_bool("fuse_unk").value_or(false);
  options.byte_fallback = reader.optional_bool("byte_fallback").value_or(false);
  options.ignore_merges = reader.optional_bool("ignore_merges").value_or(false);
  return options;
}

// Two spellings: ["a b", ...] and [["a", "b"], ...].
void Bpe::read_merges(const nlohmann::json& merges) {
  if (!merges.is_array()) {
    data_error("{}: key model.merges: expected an array, found {}", where_, merges.type_name());
  }
  if (merges.empty() && vocabulary_.size() > 256) {
    data_error("{}: key model.merges: empty, but the vocabulary has {} tokens", where_,
               vocabulary_.size());
  }
  merges_ = PairTable(merges.size());
  std::uint32_t rank = 0;
  for (const auto& merge : merges) {
    if (merge.is_string()) {
      const std::string_view line = merge.get_ref<const std::string&>();
      if (line.starts_with("#version")) continue;
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
        data_error("{}: key model.merges: entry {}: expected two parts, found \"{}\"", where_, rank,
                   line);
      }
      add_merge(line.substr(0, space), line.substr(space + 1), rank++);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(),
                rank++);
    } else {
      data_error("{}: key model.merges: entry {}: expected \"a b\" or [\"a\", \"b\"], found {}",
                 where_, rank, merge.type_name());
    }
  }
}

void Bpe::add_merge(std::string_view left, std::string_view right, std::uint32_t rank) {
  const std::string merged = std::string(left).append(right);
  const auto id_of = [&](std::string_view token) {
    const auto id = vocabulary_.id_of(token);
    if (!id) {
      data_error("{}: key model.merges: entry {}: token \"{}\" is not in the vocabulary", where_,
                 rank, token);
    }
    return static_cast<std::uint32_t>(*id);
  };
  const std::uint32_t left_id = id_of(left);
  const std::uint32_t right_id = id_of(right);
  merges_.insert(left_id, right_id, (std::uint64_t{rank} << 32) | id_of(merged));
  note_neighbours(merged);
}

// Every way to make the token of two others.
void Bpe::add_merges_into(const std::string& token, std::uint32_t rank) {
  const auto id = static_cast<std::uint32_t>(*vocabulary_.id_of(token));
  std::size_t at = 0;
  for_each_character(token, [&](char32_t, std::string_view character) {
    at += character.size();
    const auto left = vocabulary_.id_of(std::string_view(token).substr(0, at));
    const auto right = vocabulary_.id_of(std::string_view(token).substr(at));
    if (!left || !right) return;
    merges_.insert(static_cast<std::uint32_t>(*left), static_cast<std::uint32_t>(*right),
                   (std::uint64_t{rank} << 32) | id);
  });
  note_neighbours(token);
}

void Bpe::note_neighbours(std::string_view token) {
  char32_t before = 0;
  bool first = true;
  for_each_character(token, [&](char32_t code_point, std::string_view) {
    if (!first) joined_.insert(before, code_point, 0);
    before = code_point;
    first = false;
  });
}

void Bpe::build_character_tables() {
  for (std::int32_t id = 0; id < vocabulary_.id_limit(); ++id) {
    const std::string* token = vocabulary_.token_of(id);
    if (token == nullptr || token->empty()) continue;
    const Utf8Step step = utf8_step(*token);
    if (step.byte_count != token->size()) continue;
    if (step.code_point >= character_ids_.size()) {
      character_ids_.resize(step.code_point + 1, kNoId);
    }
    character_ids_[step.code_point] = id;
  }
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    byte_ids_[byte] = vocabulary_.id_of(fmt::format("<0x{:02X}>", byte)).value_or(kNoId);
  }
}

void BpeEncoder::encode(std::string_view word, std::vector<std::int32_t>& ids) {
  if (bpe_.options_.ignore_merges) {
    const auto id = bpe_.vocabulary_.id_of(word);
    if (id && !bpe_.excluded_words_.contains(*id)) {
      ids.push_back(*id);
      return;
    }
  }
  if (word.size() <= kCutBytes) return encode_cached(word, ids);
  // Exact, not a heuristic: a merge across this place would make a token that has both
  // characters side by side. Unknown characters stay with their neighbours (fuse_unk).
  std::size_t part_begin = 0;
  std::size_t at = 0;
  char32_t before = 0;
  bool before_known = false;
  for_each_character(word, [&](char32_t code_point, std::string_view bytes) {
    const bool known = bpe_.id_of_character(code_point) != Bpe::kNoId;
    if (before_known && known && bpe_.joined_.find(before, code_point) == nullptr) {
      encode_cached(word.substr(part_begin, at - part_begin), ids);
      part_begin = at;
    }
    before = code_point;
    before_known = known;
    at += bytes.size();
  });
  encode_cached(word.substr(part_begin), ids);
}

void BpeEncoder::encode_cached(std::string_view part, std::vector<std::int32_t>& ids) {
  if (part.size() > kRememberBytes) return encode_part(part, ids);
  auto found = seen_.find(part);
  if (found == seen_.end()) {
    const std::size_t begin = seen_ids_.size();
    encode_part(part, seen_ids_);
    found = seen_.emplace(part, IdRange{begin, seen_ids_.size() - begin}).first;
  }
  const auto begin = seen_ids_.begin() + static_cast<std::ptrdiff_t>(found->second.begin);
  ids.insert(ids.end(), begin, begin + static_cast<std::ptrdiff_t>(found->second.count));
}

void BpeEncoder::encode_part(std::string_view part, std::vector<std::int32_t>& ids) {
  split_into_symbols(part);
  merge_symbols();
  for (const Symbol& symbol : symbols_) {
    if (!symbol.removed) ids.push_back(symbol.id);
  }
}

void BpeEncoder::add_symbol(std::int32_t id) {
  const auto index = static_cast<std::int32_t>(symbols_.size());
  if (index > 0) symbols_.back().next = index;
  symbols_.push_back({id, index - 1, -1, false});
}

bool BpeEncoder::add_bytes(std::string_view character) {
  const auto id_of_byte = [this](char byte) {
    return bpe_.byte_ids_[static_cast<unsigned char>(byte)];
  };
  if (std::any_of(character.begin(), character.end(),
                  [&](char byte) { return id_of_byte(byte) == Bpe::kNoId; })) {
    return false;
  }
  for (const char byte : character) add_symbol(id_of_byte(byte));
  return true;
}

std::int32_t BpeEncoder::require_unk() const {
  if (!bpe_.unk_id_) {
    data_error(
        "{}: key model.unk_token: \"{}\" is needed for the text, but is not in the vocabulary",
        bpe_.where_, *bpe_.options_.unk_token);
  }
  return *bpe_.unk_id_;
}

// An unk waits until the next known character (or the next unk, when these are not fused), as in
// the reference library: byte tokens that follow it come first.
void BpeEncoder::split_into_symbols(std::string_view part) {
  const Bpe::Options& options = bpe_.options_;
  symbols_.clear();
  bool unk_waits = false;
  for_each_character(part, [&](char32_t code_point, std::string_view bytes) {
    const std::int32_t id = bpe_.id_of_character(code_point);
    if (id != Bpe::kNoId) {
      if (unk_waits) add_symbol(require_unk());
      unk_waits = false;
      add_symbol(id);
      return;
    }
    if (options.byte_fallback && add_bytes(bytes)) return;
    if (!options.unk_token) return;  // the reference library leaves the character out, too
    if (unk_waits && !options.fuse_unk) add_symbol(require_unk());
    unk_waits = true;
  });
  if (unk_waits) add_symbol(require_unk());
}

// Puts the merge of the symbol at `position` with its right neighbour on the heap, if there is one.
void BpeEncoder::consider(std::int32_t position) {
  const Symbol& left = symbols_[static_cast<std::size_t>(position)];
  if (left.next < 0) return;
  const Symbol& right = symbols_[static_cast<std::size_t>(left.next)];
  const std::uint64_t* merge =
      bpe_.merges_.find(static_cast<std::uint32_t>(left.id), static_cast<std::uint32_t>(right.id));
  if (merge == nullptr) return;
  heap_.push_back({static_cast<std::uint32_t>(*merge >> 32), position,
                   static_cast<std::int32_t>(*merge & 0xFFFFFFFFu)});
  std::push_heap(heap_.begin(), heap_.end(), LaterMerge{});
}

void BpeEncoder::merge_symbols() {
  heap_.clear();
  for (std::size_t i = 0; i < symbols_.size(); ++i) consider(static_cast<std::int32_t>(i));
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), LaterMerge{});
    const Candidate top = heap_.back();
    heap_.pop_back();
    Symbol& left = symbols_[static_cast<std::size_t>(top.position)];
    if (left.removed || left.next < 0) continue;
    Symbol& right = symbols_[static_cast<std::size_t>(left.next)];
    // The symbols may have changed since; the reference compares the result alone, not the rank.
    const std::uint64_t* merge = bpe_.merges_.find(static_cast<std::uint32_t>(left.id),
                                                   static_cast<std::uint32_t>(right.id));
    if (merge == nullptr || static_cast<std::int32_t>(*merge & 0xFFFFFFFFu) != top.new_id) {
      continue;
    }
    left.id = top.new_id;
    left.next = right.next;
    right.removed = true;
    if (right.next >= 0) symbols_[static_cast<std::size_t>(right.next)].previous = top.position;
    if (left.previous >= 0) consider(left.previous);
    consider(top.position);
  }
}

}  // namespace kvbench
