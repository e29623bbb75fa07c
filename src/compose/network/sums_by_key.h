// Sums, each with a number as its key, read in ascending order of their keys.
//
// Each sum is added up in the order in which its parts came, so it is the same to the last bit as in a std::map, which
// takes several times as long.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sccl::compose {

class SumsByKey {
 public:
  using Key = std::uint64_t;

  void add(Key key, double more) {
    if (sums_.size() * 2 >= table_.size()) grow();
    const std::size_t place = place_of(key);
    if (table_[place] == kNone) {
      table_[place] = static_cast<std::uint32_t>(sums_.size());
      sums_.emplace_back(key, 0.0);
    }
    sums_[table_[place]].second += more;
  }

  std::vector<std::pair<Key, double>> ascending() const {
    std::vector<std::pair<Key, double>> sorted = sums_;
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return sorted;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::size_t kLeastTable = 64;  // a power of two

  // Open addressing: where the key is, or where it goes.
  std::size_t place_of(Key key) const {
    const std::size_t mask = table_.size() - 1;
    std::size_t place = static_cast<std::size_t>((key * 0x9e3779b97f4a7c15u) >> 32) & mask;
    while (table_[place] != kNone && sums_[table_[place]].first != key) place = (place + 1) & mask;
    return place;
  }

  void grow() {
    table_.assign(std::max(kLeastTable, 2 * table_.size()), kNone);
    for (std::size_t i = 0; i < sums_.size(); ++i) table_[place_of(sums_[i].first)] = static_cast<std::uint32_t>(i);
  }

  std::vector<std::pair<Key, double>> sums_;
  std::vector<std::uint32_t> table_;  // places in sums_
};

}  // namespace sccl::compose
