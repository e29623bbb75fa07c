// The tree of hosts that carries a chunk, all hosts at once.
#include <utility>
#include <vector>

#include "compose/form/composite.h"

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

// A host passes data to a parent in one tier: it leads the groups below that it is in.
void Routes::find_parents(ChunkId chunk, std::vector<std::pair<int, Step>>& parents) const {
  const Part one = part(chunk);
  const Ends of = ends(one);
  const int root = root_host(of);
  parents.assign(composite_.hosts.size(), {-1, -1});
  std::vector<int> leads;
  for (int tier = 0; tier < static_cast<int>(composite_.tiers.size()); ++tier)
    for (int group = 0; group < static_cast<int>(composite_.tiers[at(tier)].groups.size()); ++group) {
      const auto& members = composite_.tiers[at(tier)].groups[at(group)];
      const std::size_t first = at(root_index(tier, group, root, of));
      leads.resize(members.size());  // by position in the tree
      for (std::size_t position = 0; position < leads.size(); ++position)
        leads[position] = lead_host(tier, members[(position + first) % members.size()], root, of);
      const Tree& shape = tree(tier, group, root, of);
      for (std::size_t position = 1; position < leads.size(); ++position)
        parents[at(leads[position])] = {leads[at(shape.parent[position])],
                                        tier_start_[at(tier)] + shape.step[position]};
    }
}

}  // namespace sccl::compose
