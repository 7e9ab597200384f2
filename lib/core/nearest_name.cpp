// Edit distance (optimal string alignment) over lower-case ASCII.
#include "core/nearest_name.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kvbench {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view given, std::span<const std::string> names) {
  std::string nearest;
  std::size_t nearest_distance = 0;
  for (const std::string& name : names) {
    // A third of the longer word may be wrong; more than that is no slip but another word.
    const std::size_t longer = std::max(given.size(), name.size());
    const std::size_t shorter = std::min(given.size(), name.size());
    const std::size_t limit = std::max<std::size_t>(1, longer / 3);
    if (longer - shorter > limit) continue;
    const std::size_t distance = edit_distance(lower_case(given), lower_case(name));
    if (distance > limit || (!nearest.empty() && distance >= nearest_distance)) continue;
    nearest = name;
    nearest_distance = distance;
  }
  return nearest;
}

}  // namespace kvbench
