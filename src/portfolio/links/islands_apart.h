// Where the islands of hosts stand in trees (topology/symmetry/islands.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compose/form/tree.h"

namespace sccl::portfolio {

// With a forest at the root, the island at the last position gives back what the root's devices lack
// (compose::Routes::last_host): it counts as beside the root.
enum class Returns : std::uint8_t { none, from_last };

struct IslandsInOrder {
  std::vector<int> order;
  bool apart = false;  // none has one of its host beside it
};

// The islands in the order in which they take the positions of trees from `root`, which is in `order`: that order from
// the root on, but with some islands exchanged, so that none passes data on to another one of its host. That would take
// the slow link between them, and their devices' links a second time. The nearest are exchanged. Where there are too
// few hosts, some pairs are left. `host_of`: by island.
IslandsInOrder islands_apart(const std::vector<int>& order, int root, std::span<const compose::Tree> trees,
                             const std::vector<int>& host_of, Returns returns);

}  // namespace sccl::portfolio
