// Kept entries against compact references: a hash for every head, and for some layers a bit mask,
// so that a failure says which positions differ.
#pragma once

#include <doctest/doctest.h>

#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvbench::test {

// FNV-1a over positions, as eight hexadecimal digits.
inline std::string hash_of(const std::vector<std::int32_t>& positions) {
  std::uint32_t hash = 2166136261U;
  for (const std::int32_t position : positions) {
    hash = (hash ^ static_cast<std::uint32_t>(position)) * 16777619U;
  }
  return fmt::format("{:08x}", hash);
}

// Positions of the bits set; the last digit holds positions 0 to 3.
inline std::vector<std::int32_t> positions_of(const std::string& mask) {
  std::vector<std::int32_t> positions;
  const auto n_digits = static_cast<std::int32_t>(mask.size());
  for (std::int32_t digit = 0; digit < n_digits; ++digit) {
    const std::string one(1, mask[static_cast<std::size_t>(n_digits - 1 - digit)]);
    const int bits = std::stoi(one, nullptr, 16);
    for (std::int32_t bit = 0; bit < 4; ++bit) {
      if ((bits >> bit & 1) != 0) positions.push_back(4 * digit + bit);
    }
  }
  return positions;
}

// The mask of a head, where `layer` is one of those that have masks; empty otherwise.
inline std::vector<std::int32_t> expected_positions(const nlohmann::json& expected,
                                                    const nlohmann::json& mask_layers,
                                                    std::int64_t layer, std::size_t head) {
  const auto at = std::find(mask_layers.begin(), mask_layers.end(), layer);
  if (at == mask_layers.end()) return {};
  const auto row = static_cast<std::size_t>(at - mask_layers.begin());
  return positions_of(expected["masks"][row][head].get<std::string>());
}

// Heads listed in `near_ties` may differ by two entries: rounding decides there.
inline void check_kept_set(const nlohmann::json& expected, const nlohmann::json& mask_layers,
                           std::int64_t layer, std::size_t head,
                           const std::vector<std::int32_t>& kept) {
  CAPTURE(head);
  const nlohmann::json here{layer, head};
  const auto& near = expected["near_ties"];
  const bool near_tie = std::find(near.begin(), near.end(), here) != near.end();
  const auto wanted = expected_positions(expected, mask_layers, layer, head);
  if (!wanted.empty()) {
    std::vector<std::int32_t> missing;
    std::set_difference(wanted.begin(), wanted.end(), kept.begin(), kept.end(),
                        std::back_inserter(missing));
    CHECK(kept.size() == wanted.size());
    CAPTURE(fmt::format("{}", fmt::join(missing, " ")));
    CHECK(missing.size() <= (near_tie ? 2U : 0U));
  }
  if (near_tie || !expected.contains("hashes")) return;
  CHECK(hash_of(kept) == expected["hashes"][static_cast<std::size_t>(layer)][head]);
}

}  // namespace kvbench::test
