// A topology seen as hosts that a network joins: the ranks of each host, how each rank reaches the network, and which
// hosts share a leaf switch. Everything here takes time and memory linear in the links.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

// A rank's shortest path over its host's switches to the first switch of the network, its leaf switch; of equally short
// ones one whose slowest link is clearly faster (kClearlyFaster), as of a rank with two unequal NICs.
struct Attachment {
  std::vector<std::pair<Node, Node>> up;    // from the rank to the leaf switch
  std::vector<std::pair<Node, Node>> down;  // from the leaf switch to the rank
  Node leaf = -1;                           // -1: no path over switches leads to the network, or none leads back

  bool attached() const { return leaf >= 0; }
};

struct Cluster {
  // By lowest rank. Within a host ascending; of a host whose devices have other numbers than those of a host before it,
  // and the same links, in the order of that host.
  std::vector<std::vector<Rank>> hosts;
  std::vector<int> host_of;   // by rank
  std::vector<int> local_of;  // by rank: position within its host

  // Hosts of one kind have the same links between their devices.
  std::vector<Topology> kinds;           // links of one host without the network; ranks are positions within the host
  std::vector<int> kind_of;              // by host
  std::vector<std::vector<Node>> nodes;  // by host: the topology's node for each node of its kind

  std::vector<Attachment> attachments;  // by rank
  // By rank: the number of the network at which its leaf switch lies; -1: none. Switches of one network reach one
  // another. There are several where NICs lie on rails, or in planes, that no switch joins.
  std::vector<int> network_of;
  // hosts grouped by equal sets of leaf switches; hosts without a leaf switch are one group
  std::vector<std::vector<int>> racks;

  int ranks() const { return static_cast<int>(host_of.size()); }
  // Positions of the host's ranks that reach the network; empty for a host without a NIC.
  std::vector<int> ports(int host) const;
  // Whether all ranks that reach the network have the same leaf switch.
  bool has_one_leaf() const;
  // Whether all ranks that reach a network reach the same one, so that every NIC reaches every other NIC.
  bool has_one_network() const;
};

// A host is a set of nodes that links of other classes than net join. A network switch that joins a single host to
// other network switches is a NIC of this host, where the other switches still join all hosts.
Cluster cluster_of(const Topology& topology);

// Throws invalid_argument that names the hosts when a host has no NIC, or when networks do not join all hosts. A single
// host needs no network.
void require_network(const Topology& topology, const Cluster& cluster);

// By node: true for switches that belong to no host. A host's nodes are those of its node list and those below the leaf
// switches of its attachments.
std::vector<bool> network_switches(const Topology& topology, const Cluster& cluster);

// Paths of fewest edges between leaf switches, over switches of the network; of these, paths whose slowest link is
// clearly faster.
class NetworkWays {
 public:
  using Edges = std::vector<std::pair<Node, Node>>;

  NetworkWays(const Topology& topology, const Cluster& cluster);

  // Empty when `from` equals `to`, or when no path exists. Valid until the next call.
  const Edges& way(Node from, Node to);

  // The last edges of all paths from a switch: each behind the edge that leads to it. Valid until the next call.
  const Edges& tree(Node from) { return search(from).edges; }

 private:
  struct Search {
    Edges edges;
    std::vector<int> edge_to;  // by number of the switch: the edge that leads to it, -1 where none does
  };

  const Search& search(Node from);
  int number(Node node) const { return numbers_[static_cast<std::size_t>(node)]; }

  std::vector<int> numbers_;                                // by node, of switches of the network; else -1
  std::vector<std::vector<std::pair<Node, double>>> next_;  // by number, with GB/s
  std::map<Node, Search> searched_;  // by source; not of too many, as each takes memory for all switches
  Edges way_;
};

}  // namespace sccl::topology
