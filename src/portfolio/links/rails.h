// How the data of a cluster keeps off slow links between leaf switches: which NICs it takes and in which order, where
// hosts have NICs at several leaf switches; and in which order it takes hosts.
//
// Chunks take the ports of every host in turn. Where NICs of one host lie at different leaf switches (rails), and hosts
// have other numbers of NICs or their devices in another order, a chunk would leave a host on one rail and enter the
// next host on another one. The links that join rails are often slow. So ports follow the leaf switches that all hosts
// have in common: a turn is the same leaf switch on every host. NICs elsewhere are left out; the host with the fewest
// NICs limits the others anyway. Where no switch joins the rails, each rail is a network of its own, perhaps of several
// leaf switches: then ports follow networks, and no chunk could take other ports.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compose/form/composite.h"
#include "topology/graph/routes.h"
#include "topology/symmetry/cluster.h"

namespace sccl::portfolio {

struct PortsOfHost {
  std::vector<double> gbytes_per_s;  // by position: of the NIC, as far as it is the position's; 0: not used
  std::vector<int> ports;            // compose::Host::ports
};

// Nothing if no leaf switch (no network, where there are several) is common to all hosts, or all hosts have one each.
std::optional<std::vector<PortsOfHost>> ports_on_rails(const topology::Cluster& cluster,
                                                       const std::vector<PortsOfHost>& hosts);

// Whether some host has ports at several leaf switches, and a turn of the ports is not the same leaf switch on all
// hosts.
bool rails_differ(const topology::Cluster& cluster, const std::vector<compose::Host>& hosts);

// Microseconds per byte of the busiest NIC or link between leaf switches, if each host of `order` passes all data to
// the next one, and the last to the first. `us_per_byte` is that of an edge.
double busiest_of_ring(const topology::Cluster& cluster, topology::NetworkWays& ways,
                       const std::vector<PortsOfHost>& hosts, const std::vector<int>& order,
                       const std::function<double(const topology::Edge&)>& us_per_byte);

// All hosts in the order of a walk over the network that takes each link once there and once back, fast links first:
// hosts that follow one another are near each other, in whatever order their ranks were numbered.
std::vector<int> order_along_network(const topology::Topology& topology, const topology::Cluster& cluster);

}  // namespace sccl::portfolio
