#include "base/settings/nearest_word.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <vector>

namespace sccl {
namespace {

char lower(char letter) { return static_cast<char>(std::tolower(static_cast<unsigned char>(letter))); }

// Damerau's distance: only neighbouring letters may be swapped.
std::size_t distance(std::string_view from, std::string_view to) {
  const std::size_t width = to.size() + 1;
  std::vector<std::size_t> cost((from.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return cost[i * width + j]; };
  for (std::size_t i = 0; i <= from.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= to.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= from.size(); ++i)
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t other = lower(from[i - 1]) == lower(to[j - 1]) ? 0 : 1;
      std::size_t best = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + other});
      const bool swapped =
          i > 1 && j > 1 && lower(from[i - 1]) == lower(to[j - 2]) && lower(from[i - 2]) == lower(to[j - 1]);
      if (swapped) best = std::min(best, at(i - 2, j - 2) + 1);
      at(i, j) = best;
    }
  return at(from.size(), to.size());
}

}  // namespace

std::string_view nearest_word(std::string_view text, std::span<const std::string_view> words) {
  // No word is near to a longer text, and the environment may hold any length.
  text = text.substr(0, 64);
  std::string_view nearest = words.front();
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const std::string_view word : words) {
    const std::size_t cost = distance(text, word);
    if (cost >= least) continue;
    least = cost;
    nearest = word;
  }
  return nearest;
}

}  // namespace sccl
