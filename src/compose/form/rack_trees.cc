#include "compose/form/rack_trees.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class RackTree {
 public:
  // `backwards`: the last host of a rack comes first.
  RackTree(const std::vector<int>& sizes, const Tree& of_racks, bool backwards)
      : sizes_(sizes), of_racks_(of_racks), backwards_(backwards), first_{0} {
    for (const int size : sizes) first_.push_back(first_.back() + size);
    tree_.parent.assign(at(first_.back()), -1);
    tree_.step.assign(at(first_.back()), -1);
  }

  Tree make() {
    // Racks in the order of their tree: a rack comes after the one from which it gets the data.
    std::vector<int> open{0};
    for (std::size_t next = 0; next < open.size(); ++next) {
      const auto first = of_racks_.children.begin() + of_racks_.first[at(open[next])];
      const std::vector<int> children(first, of_racks_.children.begin() + of_racks_.first[at(open[next]) + 1]);
      hang(open[next], children);
      open.insert(open.end(), children.begin(), children.end());
    }
    index_children(tree_);
    return std::move(tree_);
  }

 private:
  std::vector<int> hosts_of(int rack) const {
    std::vector<int> hosts(at(sizes_[at(rack)]));
    std::iota(hosts.begin(), hosts.end(), first_[at(rack)]);
    if (backwards_) std::reverse(hosts.begin() + (rack == 0 ? 1 : 0), hosts.end());  // the root stays
    return hosts;
  }

  // What the rack's hosts send, in this order; each host sends twice, the root once. Another host of the rack has the
  // data before it is its turn to send.
  void hang(int rack, const std::vector<int>& children) {
    const std::vector<int> hosts = hosts_of(rack);
    std::vector<int> targets;
    auto host = hosts.begin() + 1;
    for (const int child : children) {
      if (rack == 0 && host != hosts.end()) targets.push_back(*host++);
      targets.push_back(hosts_of(child).front());
      if (rack != 0 && host != hosts.end()) targets.push_back(*host++);
    }
    targets.insert(targets.end(), host, hosts.end());
    auto from = hosts.begin();
    int left = rack == 0 ? 1 : 2;
    for (const int to : targets) {
      if (left == 0 && from + 1 != hosts.end()) {
        ++from;
        left = 2;
      }
      tree_.parent[at(to)] = *from;
      tree_.step[at(to)] = tree_.step[at(*from)] + 1;
      --left;
    }
  }

  const std::vector<int>& sizes_;
  const Tree& of_racks_;
  bool backwards_;
  std::vector<int> first_;  // by rack: position of its first host; one more entry at the end
  Tree tree_;
};

}  // namespace

std::vector<Tree> trees_of_racks(const std::vector<int>& sizes) {
  const std::vector<Tree> of_racks = trees(Shape::two_trees, static_cast<int>(sizes.size()));
  return {RackTree(sizes, of_racks.front(), false).make(), RackTree(sizes, of_racks.back(), true).make()};
}

}  // namespace sccl::compose
