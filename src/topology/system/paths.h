// The kind of path between two devices, in the terms of nvidia-smi and NCCL, as shown in a matrix.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/system/system.h"
#include "topology/topology.h"

namespace sccl::topology {

// From near to far.
enum class PathType {
  same,
  nvlink,  // directly or over an NVSwitch
  xgmi,
  through_peer,  // two NVLink or xGMI links with a device between them
  pci_switch,    // one switch
  pci_switches,
  host_bridge,  // of a CPU
  sockets,      // between CPUs
  shared_memory,
  network,
  hops,  // only over other ranks that forward
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
  int lanes = 0;            // of the narrowest edge; for `hops` the number of hops
  double gbytes_per_s = 0;  // of the slowest edge
};

// By source and destination rank.
std::vector<std::vector<Path>> path_matrix(const Topology& topology);

struct NicPaths {
  std::string name;
  double gbits_per_s;
  std::vector<PathType> to_rank;
};

// The NICs of a description, and the kind of path from each GPU to each NIC.
std::vector<NicPaths> nic_paths(const Element& system);

}  // namespace sccl::topology
