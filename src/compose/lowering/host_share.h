// What one host does in a composite, where all hosts do alike: a simulation of it takes a part of the time of one of
// all ranks, and the flat form is not needed.
#pragma once

#include <optional>

#include "compose/form/composite.h"
#include "compose/lowering/host_ways.h"
#include "schedule/host_share.h"

namespace sccl::compose {

// Of one cluster.
class HostShares {
 public:
  HostShares(const topology::Topology& topology, const topology::Cluster& cluster, const schedule::EdgeIndex& edges)
      : ways_(ways_of_alike_hosts(topology, cluster, edges)) {}

  // Whether hosts are alike, and trees of hosts may turn: those of a root are those of the next one, a host further in
  // all racks, or a rack further. Without a look at the sends.
  bool serves(const Composite& composite) const;

  // Nothing where it does not serve, or hosts do not do alike. That is seen at the first host: what it gets is what it
  // sends, all of it. The composite must have passed verify(). Takes time and memory linear in the chunks of the
  // cluster and in the ranks of a host.
  std::optional<schedule::HostShare> of(const Composite& composite) const;

 private:
  std::optional<HostWays> ways_;
};

}  // namespace sccl::compose
