// What one of several hosts does in a schedule, where all do alike: it stands for the whole.
//
// The hosts are joined in a circle in thought, and what one does the next one does as well, with the chunks of the next
// one's ranks; where there are racks, these in a circle, and the hosts of each. So a host gets from another one, so
// many places before it, what it sends to the one so many places after it; and a chunk that it sends arrives, at the
// rank of this host that stands for the receiver, as the chunk whose owner is as far from this host as the sent one's
// is from the receiver. A simulation of the host with itself as all others takes a part of the time of a simulation of
// all, one over the number of hosts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/schedule.h"
#include "topology/graph/routes.h"

namespace sccl::schedule {

struct HostShare {
  // How far a send goes: hosts of one rack are at the same leaf switches.
  enum class Reach : std::uint8_t { on_host, in_rack, between_racks };
  struct Beyond {
    Rank to = 0;             // the receiver in the whole
    ChunkId arrives_as = 0;  // at the rank that stands for it
    Reach reach = Reach::on_host;
  };
  // By source, then destination.
  using Ways = std::vector<std::vector<topology::Edge>>;

  // What the host's ranks send, over the host's links and its part of those that hosts share. Ranks are numbered from
  // 0; a receiver on another host is the rank of this one that stands for it. Chunks have the numbers and parts of the
  // whole.
  Schedule schedule;
  std::vector<Beyond> beyond;     // by send
  std::vector<Rank> whole_ranks;  // by rank of the host
  int ranks = 0;                  // of the whole
  std::array<Ways, 3> ways;       // by reach; between hosts out to the network, and from there to this host

  std::span<const topology::Edge> way(int send) const {
    const Send& one = schedule.sends[static_cast<std::size_t>(send)];
    const std::size_t pair = static_cast<std::size_t>(one.src) * static_cast<std::size_t>(schedule.ranks) +
                             static_cast<std::size_t>(one.dst);
    return ways[static_cast<std::size_t>(beyond[static_cast<std::size_t>(send)].reach)][pair];
  }
};

}  // namespace sccl::schedule
