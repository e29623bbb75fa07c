#include "portfolio/links/islands_apart.h"

#include <algorithm>

namespace sccl::portfolio {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Places {
 public:
  Places(std::vector<int> order, std::span<const compose::Tree> trees, const std::vector<int>& host_of, Returns returns)
      : order_(std::move(order)), host_of_(host_of), beside_(order_.size()) {
    for (const compose::Tree& tree : trees)
      for (int position = 1; position < tree.size(); ++position) {
        beside_[at(position)].push_back(tree.parent[at(position)]);
        beside_[at(tree.parent[at(position)])].push_back(position);
      }
    if (returns == Returns::none) return;
    beside_.front().push_back(size() - 1);
    beside_.back().push_back(0);
  }

  IslandsInOrder apart() {
    bool all = true;
    for (int position = 1; position < size(); ++position)
      if (touches(position)) move(position);
    for (int position = 1; position < size(); ++position) all = all && !touches(position);
    return {std::move(order_), all};
  }

 private:
  int size() const { return static_cast<int>(order_.size()); }

  // Whether the island at this position has one of its host beside it in some tree.
  bool touches(int position) const {
    const int host = host_of_[at(order_[at(position)])];
    return std::ranges::any_of(beside_[at(position)],
                               [&](int other) { return host_of_[at(order_[at(other)])] == host; });
  }

  // The root keeps its place.
  void move(int position) {
    for (int distance = 1; distance < size(); ++distance)
      for (const int other : {position + distance, position - distance}) {
        if (other < 1 || other >= size()) continue;
        const bool touched = touches(other);
        std::swap(order_[at(position)], order_[at(other)]);
        if (!touches(position) && (touched || !touches(other))) return;
        std::swap(order_[at(position)], order_[at(other)]);
      }
  }

  std::vector<int> order_;
  const std::vector<int>& host_of_;
  std::vector<std::vector<int>> beside_;  // by position: parents and children in all trees
};

}  // namespace

IslandsInOrder islands_apart(const std::vector<int>& order, int root, std::span<const compose::Tree> trees,
                             const std::vector<int>& host_of, Returns returns) {
  std::vector<int> from_root = order;
  std::rotate(from_root.begin(), std::ranges::find(from_root, root), from_root.end());
  return Places(std::move(from_root), trees, host_of, returns).apart();
}

}  // namespace sccl::portfolio
