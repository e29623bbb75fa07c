// The links of a communicator over hosts: the ranks of a host share its memory, and its NICs lead over one network to
// the NICs of all others. Figures are what ranks have told one another, so that all get the same links.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/deadline.h"
#include "net/net.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/membership/hosts/host_groups.h"
#include "topology/topology.h"

namespace sccl::runtime {

// A rank's way to the network.
struct NetFigures {
  std::int32_t device = 0;  // of its host, as the engine numbers them
  std::int32_t mbits_per_s = 0;
  float latency_us = 0;  // of a short message
};

// What the engine does not tell is read from the interfaces ("eth0,eth1"), or assumed.
NetFigures figures_of(const net::Device& device, int number, const std::string& interfaces);

// `figures` by rank.
topology::Topology topology_of_hosts(const HostGroups& groups, std::span<const NetFigures> figures);

// Collective.
topology::Topology agree_on_host_links(const HostGroups& groups, const NetFigures& mine, Bootstrap& bootstrap,
                                       Deadline deadline);

}  // namespace sccl::runtime
