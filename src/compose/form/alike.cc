// Hosts that do alike (Composite::alike): each stands in the tier's circle, and what it does with a chunk depends only
// on how many places it is behind the chunk's root host, and on which of that host's chunks this is.
#include <algorithm>
#include <utility>

#include "compose/form/composite.h"

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool of_blocks(Collective collective) {
  return collective == Collective::allgather || collective == Collective::reducescatter;
}

// At places that are equally far apart, each once, and as many strands of each.
std::string fault_of_roots(const Composite& composite) {
  const std::vector<int>& members = composite.tiers.front().groups.front();
  std::vector<int> roots = composite.root_hosts;
  if (roots.empty() || members.size() % roots.size() != 0) return "root hosts are not equally far apart";
  std::vector<int> wanted;
  for (std::size_t place = 0; place < members.size(); place += members.size() / roots.size())
    wanted.push_back(members[place]);
  std::ranges::sort(roots);
  std::ranges::sort(wanted);
  if (roots != wanted) return "root hosts are not equally far apart";
  const std::size_t of_frame = composite.hosts.front().ports.size() * roots.size() * at(composite.frames);
  if (at(composite.chunks_per_rank) % of_frame != 0) return "root hosts have unlike numbers of chunks";
  return "";
}

}  // namespace

std::string fault_of_alike(const Composite& composite) {
  const bool both_ways = composite.collective == Collective::allreduce && composite.meeting == Meeting::trees;
  if (!of_blocks(composite.collective) && !both_ways) return "chunks of the collective have one root, or none";
  if (composite.tiers.size() != 1 || composite.tiers.front().groups.size() != 1) return "hosts are in several groups";
  const Tier& tier = composite.tiers.front();
  if (!tier.of_roots.empty() || !tier.leaves.empty()) return "roots have trees of their own";
  for (const auto& [members, trees] : tier.shapes)
    if (both_ways && trees.size() > 1) return "chunks take several trees in turn";
  if (composite.staggered || composite.rails_of_pairs || composite.at_root) return "chunks begin in turn";
  const Host& first = composite.hosts.front();
  for (const Host& host : composite.hosts)
    if (host.kind != first.kind || host.ports != first.ports || host.near != first.near ||
        host.ranks.size() != first.ranks.size())
      return "hosts are of unlike kinds";
  return both_ways ? fault_of_roots(composite) : "";
}

int hosts_that_stand_for_all(const Composite& composite) {
  return composite.collective == Collective::allreduce
             ? static_cast<int>(composite.hosts.size() / composite.root_hosts.size())
             : 1;
}

void Routes::place_roots() {
  period_ = hosts_that_stand_for_all(composite_);
  root_at_.assign(composite_.hosts.size(), -1);
  if (owners() > 1) return;
  for (std::size_t root = 0; root < composite_.root_hosts.size(); ++root)
    root_at_[at(places_.front()[at(composite_.root_hosts[root])].index)] = static_cast<int>(root);
}

int Routes::places_behind(int host, int root_host) const {
  const int places = places_.front()[at(host)].index - places_.front()[at(root_host)].index;
  return places < 0 ? places + static_cast<int>(composite_.hosts.size()) : places;
}

// Of one port, in one frame.
int Routes::strands_of_root() const { return strands() / static_cast<int>(composite_.root_hosts.size()); }

ChunkId Routes::as_first_hosts(ChunkId chunk, int host) const { return as_first_hosts(chunk, host, root_host(chunk)); }

ChunkId Routes::as_first_hosts(ChunkId chunk, int host, int root_host) const {
  const int its_place = places_.front()[at(host)].index;
  const int further = its_place - its_place % period_;
  int place = places_.front()[at(root_host)].index - further;
  if (place < 0) place += static_cast<int>(composite_.hosts.size());
  if (owners() > 1) {
    const Rank owner = chunk % composite_.ranks();
    const int its_host = composite_.tiers.front().groups.front()[at(place)];
    return chunk - owner + composite_.hosts[at(its_host)].ranks[at(local_of_[at(owner)])];
  }
  const int roots = root_at_[at(place)] - root_at_[at(places_.front()[at(root_host)].index)];
  return chunk + roots * most_ports_ * composite_.frames;
}

std::size_t Routes::place_in_order(ChunkId chunk, Rank rank) const {
  return place_in_order(chunk, rank, composite_.alike ? root_host(chunk) : 0);
}

std::size_t Routes::place_in_order(ChunkId chunk, Rank rank, int root_host) const {
  if (!composite_.alike) return at(chunk) * at(composite_.ranks()) + at(rank);
  const int host = host_of(rank);
  const int first = places_.front()[at(host)].index % period_;
  return (at(as_first_hosts(chunk, host, root_host)) * at(period_) + at(first)) *
             composite_.hosts[at(host)].ranks.size() +
         at(local_of_[at(rank)]);
}

void Routes::take_order(ChunkId chunk, Rank rank, std::span<Move> moves) const {
  const int root = composite_.alike ? root_host(chunk) : 0;
  for (Move& move : moves) {
    const bool copy = move.kind == SendKind::copy;
    const Rank named = copy == move.sends ? move.peer : rank;
    move.step = (copy ? composite_.order->copies : composite_.order->sums)[place_in_order(chunk, named, root)];
  }
}

}  // namespace sccl::compose
