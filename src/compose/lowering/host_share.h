// What one host does in a composite, where all hosts do alike: a simulation of it takes a part of the time of one of
// all ranks, and the flat form is not needed.
#pragma once

#include <optional>
#include <vector>

#include "compose/form/composite.h"
#include "schedule/edge_index.h"
#include "schedule/host_share.h"
#include "topology/symmetry/cluster.h"

namespace sccl::compose {

// Of one cluster.
class HostShares {
 public:
  HostShares(const topology::Topology& topology, const topology::Cluster& cluster, const schedule::EdgeIndex& edges);

  // Whether all hosts have the same links and NICs, at the same leaf switches, and trees of hosts that may turn: those
  // of a root are those of the next one, a host further. Without a look at the sends.
  bool serves(const Composite& composite) const;

  // Nothing where it does not serve, or hosts do not do alike. That is seen at the first host: what it gets is what it
  // sends, all of it. The composite must have passed verify(). Takes time and memory linear in the chunks of the
  // cluster and in the ranks of a host.
  std::optional<schedule::HostShare> of(const Composite& composite) const;

 private:
  bool find_ways(const topology::Topology& topology, const topology::Cluster& cluster);
  bool take_links(const topology::Topology& topology, const topology::Cluster& cluster);

  bool alike_ = false;        // the hosts
  topology::Topology links_;  // of the first host, with the leaf switches
  std::vector<std::vector<topology::Edge>> on_host_, between_hosts_;
};

}  // namespace sccl::compose
