// The kind of way between two devices, in the words of nvidia-smi and NCCL, as people read it in a matrix.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/system.h"
#include "topology/topology.h"

namespace sccl::topology {

// From near to far.
enum class PathType {
  same,
  nvlink,  // directly or over an NVSwitch
  xgmi,
  through_peer,  // two such links with a device between them
  pci_switch,    // one
  pci_switches,
  host_bridge,  // a CPU's
  sockets,      // between CPUs
  shared_memory,
  network,
  hops,  // only over other ranks, which forward
  none,
};

struct PathTypeInfo {
  PathType type;
  std::string_view name;  // "NVL"
  std::string_view meaning;
};

const PathTypeInfo& info(PathType type);

struct Path {
  PathType type = PathType::none;
  int lanes = 0;            // least lanes on the way; for `hops` their number
  double gbytes_per_s = 0;  // least on the way
};

// By source and destination rank.
std::vector<std::vector<Path>> path_matrix(const Topology& topology);

struct NicPaths {
  std::string name;
  double gbits_per_s;
  std::vector<PathType> to_rank;
};

// The NICs of a description, and how far they are from each GPU.
std::vector<NicPaths> nic_paths(const Element& system);

}  // namespace sccl::topology
