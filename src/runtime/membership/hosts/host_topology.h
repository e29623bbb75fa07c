// The links of a communicator over hosts: each host is a box, whose ranks have the links that the host's NCCL_TOPO_FILE
// or detection tells, else share its memory; its NICs lead over one network to the NICs of all others. Links and
// figures are what ranks have told one another, so that all get the same.
#pragma once

#include <span>
#include <string>

#include "base/deadline.h"
#include "net/net.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/membership/hosts/host_box.h"
#include "runtime/membership/hosts/host_groups.h"
#include "topology/topology.h"

namespace sccl::runtime {

// A rank's way to the network.
struct NetFigures {
  int device = 0;    // of its host, as the engine numbers them
  std::string name;  // of the device: "mlx5_0", "eth0"; of several interfaces "eth0,eth1"
  int mbits_per_s = 0;
  double latency_us = 0;    // of a short message
  bool is_assumed = false;  // nobody tells the speed
  std::string busid{};      // as the engine tells it; empty: it does not
};

// What the engine does not tell is read from the interfaces ("eth0,eth1"), or assumed.
NetFigures figures_of(const net::Device& device, int number, const std::string& interfaces);

// What a rank tells all others.
struct HostLinksRecord {
  NetFigures figures;
  HostBox box;  // only of the first rank of each host
};

// `records` by rank. The hosts' own links are those of their boxes, and the NICs are at their places there.
topology::Topology topology_of_hosts(const HostGroups& groups, std::span<const HostLinksRecord> records);

// Collective. Every rank logs the warnings of all hosts.
topology::Topology agree_on_host_links(const HostGroups& groups, Rank rank, const HostLinksRecord& mine,
                                       Bootstrap& bootstrap, Deadline deadline);

}  // namespace sccl::runtime
