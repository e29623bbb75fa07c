// What the root's host does in a Broadcast or Reduce, made of packed trees over the host's links and NICs. Data that
// the links cannot bring from the root to a device in time comes back to the device over the network
// (compose::RootHost).
//
// The packing sees one host and a rank `outside` that stands for all others (treegen/clusters/cluster_packing.h): a
// tree that passes through `outside` leaves the root's host and returns at the children of `outside`. By Edmonds'
// theorem such trees reach the least cut around any device, where no links share their bandwidth.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compose/form/composite.h"
#include "portfolio/host/exits.h"
#include "treegen/graph/links.h"

namespace sccl::portfolio {

// Over a host's devices and `outside`, which has the next number. For Reduce read backwards.
struct RootTree {
  treegen::Tree tree;
  double gbytes_per_s = 0;  // what it carries of all that leaves the root
};

// Every device has a NIC of its rate in `nic_gbytes_per_s`, or none: 0, behind its node in `last_nodes`
// (portfolio/links/outside.h). A chunk enters the next host at so many `entries` on average, and leaves by the root's
// host's NICs as often. Empty if the root does not reach all.
std::vector<RootTree> root_trees(const topology::Topology& links, std::span<const double> nic_gbytes_per_s,
                                 std::span<const topology::Node> last_nodes, double entries, Collective collective,
                                 Rank root);

// Which devices send a chunk to other hosts: all that get it before it returns, or the one that does in the packing,
// where a device's way to its NIC passes links to other devices, which the packing has filled.
enum class ExitsOfTree : std::uint8_t { all, packed };

// One chunk for each of the Broadcast's or Reduce's, in the order in which they leave; which ways they take is said in
// portfolio/host/exits.h.
compose::RootHost root_forest(const topology::Topology& links, const std::vector<RootTree>& trees, ExitsOfTree exits,
                              std::span<const double> nic_gbytes_per_s, Collective collective, Rank root,
                              const std::vector<Leaving>& leaving, bool on_rails);

}  // namespace sccl::portfolio
