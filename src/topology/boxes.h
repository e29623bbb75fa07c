// Joins hosts by a network: each host is a box of devices and switches with NICs, and a link of class net leads from
// every NIC to the network and back.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

struct BoxNic {
  double gbytes_per_s = 0;
  double alpha_us = 0;      // from the NIC to the network
  std::vector<Rank> users;  // ranks of the box (0 .. ranks-1) that send through this NIC
  Node place = -1;          // the box's switch at which the NIC is; -1: its users reach it without a switch
};

struct Box {
  Topology links;
  std::vector<Rank> ranks;  // in the joined topology, by rank of the box
  std::vector<BoxNic> nics;
};

// The ranks of all boxes are 0 .. n-1, each once, in any order. Switches keep the order of their boxes; the network is
// the first switch. The result is validated.
Topology join_boxes(std::string name, std::span<const Box> boxes);

}  // namespace sccl::topology
