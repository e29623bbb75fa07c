// Which chunks a rank has to do with, and whose sums it completes.
#include <algorithm>
#include <bit>
#include <vector>

#include "compose/form/composite.h"

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

bool Routes::completes_sum(ChunkId chunk, Rank rank) const {
  const Part one = part(chunk);
  const Ends of = ends(one);
  if (!of.everyone_contributes) return false;
  if (of.everyone_receives && composite_.meeting == Meeting::butterfly) {
    const auto hosts = static_cast<unsigned>(composite_.hosts.size());
    const int host = host_of(rank);
    return host < static_cast<int>(std::bit_floor(hosts)) && rank == port(of, host);
  }
  return rank == (composite_.at_root ? of.sink : port(of, root_host(of)));
}

void Routes::for_each_chunk_of(Rank rank, const std::function<void(ChunkId)>& visit) const {
  const int host = host_of(rank);
  const Ends any = ends(part(0));
  if (any.everyone_contributes || any.everyone_receives) {
    for (ChunkId chunk = 0; chunk < chunks_; ++chunk) visit(chunk);
    return;
  }
  const int ranks = composite_.ranks();
  // A host that is like another one lists its ranks in that one's order.
  std::vector<Rank> own = composite_.hosts[at(host)].ranks;
  std::sort(own.begin(), own.end());
  if (composite_.collective != Collective::alltoall) {
    if (host == host_of(composite_.root)) {
      for (ChunkId chunk = 0; chunk < chunks_; ++chunk) visit(chunk);
      return;
    }
    // All chunks once for each rank would be the square of the ranks.
    for (ChunkId first = 0; first < chunks_; first += ranks)
      for (const Rank owner : own) visit(first + owner);
    return;
  }
  for (ChunkId row = 0; row < chunks_; row += ranks) {
    if (host_of(row / ranks % ranks) == host)
      for (Rank source = 0; source < ranks; ++source) visit(row + source);
    else
      for (const Rank source : own) visit(row + source);
  }
}

}  // namespace sccl::compose
