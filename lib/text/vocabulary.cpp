// Tokens from the `vocab` object of tokenizer.json, or from a list.
#include "text/vocabulary.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace kvbench {

Vocabulary::Vocabulary(const nlohmann::json& vocab, const std::string& where) {
  if (!vocab.is_object()) {
    data_error("{}: key model.vocab: expected an object, found {}", where, vocab.type_name());
  }
  ids_.reserve(vocab.size());
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_integer() || id < 0 || id > kMaxTokenId) {
      data_error("{}: key model.vocab: token \"{}\": expected an id from 0 to {}, found {}", where,
                 token, kMaxTokenId, id.dump());
    }
    ids_.emplace(token, id.get<std::int32_t>());
  }
  for (const auto& [token, id] : ids_) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= tokens_.size()) tokens_.resize(index + 1, nullptr);
    if (tokens_[index] != nullptr) {
      data_error("{}: key model.vocab: tokens \"{}\" and \"{}\" both have id {}", where,
                 *tokens_[index], token, id);
    }
    tokens_[index] = &token;
  }
}

Vocabulary::Vocabulary(const std::vector<std::string>& tokens, std::int32_t first_id,
                       const std::string& where) {
  ids_.reserve(tokens.size());
  tokens_.resize(static_cast<std::size_t>(first_id), nullptr);
  for (const std::string& token : tokens) {
    const auto [entry, added] = ids_.emplace(token, id_limit());
    if (!added) {
      data_error("{}: token {} repeats token {}", where, id_limit() - first_id,
                 entry->second - first_id);
    }
    tokens_.push_back(&entry->first);
  }
}

std::optional<std::int32_t> Vocabulary::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Vocabulary::token_of(std::int32_t id) const {
  if (id < 0 || id >= id_limit()) return nullptr;
  return tokens_[static_cast<std::size_t>(id)];
}

}  // namespace kvbench
