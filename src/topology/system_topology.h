// From NCCL's description of a machine to the links between its GPUs, and back.
#pragma once

#include "topology/system.h"
#include "topology/topology.h"

namespace sccl::topology {

// When the PCI tree is part of the topology.
enum class Detours { when_needed, always };

// The GPUs become ranks (in the order of gpu_busids, `devices` are their device numbers), NVSwitches, and with PCI also
// CPUs and PCI switches, become switches. Where NVLinks or xGMI links join all GPUs, PCI paths are left out unless
// asked for, as a lane would be so small a unit that the faster links were counted in odd numbers of them. Figures are
// NCCL's for what the attributes say. Throws invalid_argument when there is no GPU.
Topology topology_from_system(const Element& system, Detours detours = Detours::when_needed);

// A description that reads back as the same topology, up to figures NCCL derives itself. Throws invalid_argument for
// what NCCL's format cannot hold: links of class shm and net, PCI links from GPU to GPU, shared sets.
Element system_from_topology(const Topology& topology);

}  // namespace sccl::topology
