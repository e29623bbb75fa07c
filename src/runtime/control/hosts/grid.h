// Which hosts' agents are connected. Up to a number of hosts, each with each. More hosts lie on a grid, and the agents
// of a row and of a column are connected, each with each. A host passes on what it hears from a host of its row to its
// column, and the other way round. So what happens on a host reaches every other one in two hops and, but for hosts in
// an incomplete last row, on two ways: the loss of a host cuts nobody off.
#pragma once

#include <array>
#include <cmath>

namespace sccl::runtime::hosts {

class Grid {
 public:
  // Up to `most` hosts are connected each with each.
  Grid(int hosts, int most)
      : hosts_(hosts), columns_(hosts <= most ? hosts : static_cast<int>(std::ceil(std::sqrt(hosts)))) {}

  bool are_adjacent(int one, int other) const {
    return one / columns_ == other / columns_ || one % columns_ == other % columns_;
  }
  // Of hosts that are not adjacent: those adjacent to both; -1 where the last row has none.
  std::array<int, 2> between(int one, int other) const {
    return {at(one / columns_, other % columns_), at(other / columns_, one % columns_)};
  }

 private:
  int at(int row, int column) const {
    const int host = row * columns_ + column;
    return host < hosts_ ? host : -1;
  }

  int hosts_;
  int columns_;
};

}  // namespace sccl::runtime::hosts
