// Converts NCCL's description of a machine to the links between its GPUs, and back.
#pragma once

#include <string>
#include <vector>

#include "topology/system/system.h"
#include "topology/topology.h"

namespace sccl::topology {

// When the PCI tree is part of the topology.
enum class Detours { when_needed, always };

// The GPUs become ranks, in the order of gpu_busids(); `devices` are their device numbers. NVSwitches become switches;
// with PCI, so do CPUs and PCI switches. If NVLinks or xGMI links join all GPUs, PCI paths are left out unless asked
// for: the slow PCI paths would set the unit of a lane, and faster links would have odd numbers of lanes. Bandwidths
// are those that NCCL assumes for the same attributes. Throws invalid_argument when there is no GPU.
Topology topology_from_system(const Element& system, Detours detours = Detours::when_needed);

// Where a NIC of the description is in the topology that topology_from_system() gives for it.
struct NicPlace {
  std::string name;     // "mlx5_0", "eth0"
  int mbits_per_s = 0;  // 0: not told
  Node node = -1;       // the nearest switch (PCI switch or CPU); -1: the topology has no PCI part
  std::string busid{};  // as normal_busid() writes it; empty: not on PCI
};
std::vector<NicPlace> nic_places(const Element& system);

// A description that reads back as the same topology, except for figures that NCCL derives itself. Throws
// invalid_argument for links that NCCL's format cannot hold: links of class shm and net, PCI links from GPU to GPU,
// shared sets.
Element system_from_topology(const Topology& topology);

}  // namespace sccl::topology
