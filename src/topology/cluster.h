// A topology seen as hosts that a network joins: which ranks stand together, how each rank reaches the network, and
// which hosts share a leaf switch. Everything here takes time and memory linear in the links.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

// A rank's shortest way over switches between its device and the first switch that serves several hosts.
struct Attachment {
  std::vector<std::pair<Node, Node>> up;    // from the rank to the leaf switch
  std::vector<std::pair<Node, Node>> down;  // from the leaf switch to the rank
  Node leaf = -1;                           // -1: switches lead from this rank to no other host, or not back

  bool attached() const { return leaf >= 0; }
};

struct Cluster {
  std::vector<std::vector<Rank>> hosts;  // by lowest rank; ascending within a host
  std::vector<int> host_of;              // by rank
  std::vector<int> local_of;             // by rank: position within its host

  // Hosts of one kind have the same links between their devices.
  std::vector<Topology> kinds;           // links of one host without the network; ranks are positions within the host
  std::vector<int> kind_of;              // by host
  std::vector<std::vector<Node>> nodes;  // by host: the topology's node for each node of its kind

  std::vector<Attachment> attachments;  // by rank
  std::vector<std::vector<int>> racks;  // hosts with the same leaf switches; one entry when there is nothing to tell

  int ranks() const { return static_cast<int>(host_of.size()); }
  // Ranks of the host that reach the network, as positions; empty for a host without a NIC.
  std::vector<int> ports(int host) const;
};

// What links of classes other than net join, over any nodes, is one host. A switch of the network that serves one host
// only is a NIC of this host.
Cluster cluster_of(const Topology& topology);

// Throws invalid_argument that names the hosts when a host has no NIC, or the network does not lead from every NIC to
// every other one. One host needs no network.
void require_network(const Topology& topology, const Cluster& cluster);

// Fewest-edge ways over switches of the network between leaf switches.
class NetworkWays {
 public:
  NetworkWays(const Topology& topology, const Cluster& cluster);

  // Empty when both are one switch, or nothing leads there. Valid until the next call.
  const std::vector<std::pair<Node, Node>>& way(Node from, Node to);

 private:
  std::vector<std::vector<Node>> next_;         // by node, over switches of the network
  std::map<Node, std::vector<Node>> searched_;  // by source: the node before each node, -1 where it is not reached
  std::vector<std::pair<Node, Node>> way_;
};

}  // namespace sccl::topology
