// The links between the devices of one communicator: a directed multigraph with latency, bandwidth and sharing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"

namespace sccl::topology {

// Nodes 0 .. ranks-1 are the ranks' devices; ranks .. ranks+switches-1 only forward.
using Node = int;

enum class LinkClass : std::uint8_t { nvlink, xgmi, pcie, shm, net };

std::string_view name(LinkClass link_class);
LinkClass link_class_from_name(std::string_view name);  // throws invalid_argument

// Origin of a link's figures: data sheets, or a measurement on this machine.
enum class Source : std::uint8_t { assumed, measured };

// One direction of a connection between two nodes.
struct Link {
  Node src = 0;
  Node dst = 0;
  int lanes = 1;            // unit-bandwidth lanes: chunks a round (SCCL 3.2.2), capacity (Blink 3.2)
  double gbytes_per_s = 0;  // of the whole link, all lanes
  double alpha_us = 0;      // latency of one transfer
  LinkClass link_class = LinkClass::shm;
  Source source = Source::assumed;
  bool operator==(const Link&) const = default;
};

// SCCL's bandwidth relation B: these links together carry at most `lanes` chunks a round.
struct SharedSet {
  int lanes = 1;
  std::vector<std::pair<Node, Node>> links;
  bool operator==(const SharedSet&) const = default;
};

// Kind of a switch on the machine. Schedules do not depend on it; names of paths, XML and pictures do.
enum class SwitchKind : std::uint8_t { unknown, nvswitch, pcie, cpu, nic, fabric };

std::string_view name(SwitchKind kind);
SwitchKind switch_kind_from_name(std::string_view name);  // unknown for any other name

struct Topology {
  std::string name;
  int ranks = 0;
  int switches = 0;
  std::vector<Link> links;
  std::vector<SharedSet> shared;
  std::vector<int> devices;  // ids that `--devices` kept, by rank; empty when all were kept

  std::vector<SwitchKind> switch_kinds;  // by switch; empty when no kind is known

  int nodes() const { return ranks + switches; }
  SwitchKind switch_kind(Node node) const {
    return switch_kinds.empty() ? SwitchKind::unknown : switch_kinds[static_cast<std::size_t>(node - ranks)];
  }
  // Sum over all parallel links from src to dst; 0 when there is no link.
  int lanes(Node src, Node dst) const;
  bool operator==(const Topology&) const = default;
};

// Throws invalid_argument that names the link or set: a node out of range, a non-positive number of lanes, a negative
// figure, one that no link has, or a link from a node to itself.
void validate(const Topology& topology);

// Every rank is joined to every other rank by one lane through the host's memory.
Topology host(int ranks);

}  // namespace sccl::topology
