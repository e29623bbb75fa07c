// The tree of hosts that carries a chunk: where hosts stand in it, and which are their parents.
#include <utility>
#include <vector>

#include "compose/form/composite.h"

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

// Strands take a host's chunks in turn, too. The port is added so that a tree has all of these chunks: they enter hosts
// at different devices, and each host passes on the chunks of one tree. Frames take trees in turn for the same reason,
// and where leaves differ: so each root has all of these.
std::size_t Routes::shape_index(const Tier& tier, std::size_t shapes, const Ends& ends) const {
  return at((tier.leaves.empty() ? ends.tree_turn : ends.leaf_turn) + ends.turn % most_ports_) % shapes;
}

const Tree& Routes::tree(int tier, int group, int root_host, const Ends& ends) const {
  const Tier& one = composite_.tiers[at(tier)];
  if (!one.of_roots.empty()) {
    const auto& own = one.of_roots[at(root_index(tier, group, root_host, ends))];
    return own[at(ends.tree_turn) % own.size()];
  }
  const auto& shapes = one.shapes.at(static_cast<int>(one.groups[at(group)].size()));
  return shapes[shape_index(one, shapes.size(), ends)];
}

// The root member of a group: the member with the root host, else the member that leads for this chunk.
int Routes::root_index(int tier, int group, int root_host, const Ends& ends) const {
  const Place& root = places_[at(tier)][at(root_host)];
  if (root.group == group) return root.index;
  const auto& members = composite_.tiers[at(tier)].groups[at(group)];
  // The same index as the root host's member in its own group, so that equal groups connect at equal places. Strands
  // move on.
  const bool one_root = info(composite_.collective).rooted;
  return (root.index + (one_root ? ends.strand : 0)) % static_cast<int>(members.size());
}

Routes::Circle Routes::circle(int tier, int group, int root_host, const Ends& ends) const {
  const Tier& one = composite_.tiers[at(tier)];
  const int size = static_cast<int>(one.groups[at(group)].size());
  const int leaves = one.leaves.empty() ? 0 : one.leaves[shape_index(one, one.leaves.size(), ends)];
  return {root_index(tier, group, root_host, ends), size - leaves};
}

int Routes::position(int tier, int host, int root_host, const Ends& ends) const {
  const Place& place = places_[at(tier)][at(host)];
  return circle(tier, place.group, root_host, ends).position(place.index);
}

// The host at which a member of a tier's group exchanges data with the others.
int Routes::lead_host(int tier, int member, int root_host, const Ends& ends) const {
  for (int below = tier - 1; below >= 0; --below) {
    const auto& members = composite_.tiers[at(below)].groups[at(member)];
    member = members[at(root_index(below, member, root_host, ends))];
  }
  return member;
}

std::pair<int, Step> Routes::parent(ChunkId chunk, int host) const {
  const Part one = part(chunk);
  const Ends of = ends(one);
  return parent(host, root_host(of), of);
}

std::pair<int, Step> Routes::parent(int host, int root_host, const Ends& ends) const {
  for (int tier = 0; tier < static_cast<int>(composite_.tiers.size()); ++tier) {
    const int here = position(tier, host, root_host, ends);
    if (here == 0) continue;
    const int group = places_[at(tier)][at(host)].group;
    const auto& members = composite_.tiers[at(tier)].groups[at(group)];
    const Tree& shape = tree(tier, group, root_host, ends);
    const int index = circle(tier, group, root_host, ends).index(shape.parent[at(here)]);
    return {lead_host(tier, members[at(index)], root_host, ends), tier_start_[at(tier)] + shape.step[at(here)]};
  }
  return {-1, -1};
}

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
      const Circle turn = circle(tier, group, root, of);
      leads.resize(members.size());  // by position in the tree
      for (std::size_t position = 0; position < leads.size(); ++position)
        leads[position] = lead_host(tier, members[at(turn.index(static_cast<int>(position)))], root, of);
      const Tree& shape = tree(tier, group, root, of);
      for (std::size_t position = 1; position < leads.size(); ++position)
        parents[at(leads[position])] = {leads[at(shape.parent[position])],
                                        tier_start_[at(tier)] + shape.step[position]};
    }
}

}  // namespace sccl::compose
