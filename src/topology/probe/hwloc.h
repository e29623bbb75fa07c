// PCI devices, NUMA nodes and NICs from hwloc. Used where /sys shows nothing, and to read recorded machines.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "topology/probe/pci_place.h"

namespace sccl::topology::probe {

struct HwlocView {
  std::map<std::string, Chain> chains;  // by PCI address, for GPUs and NICs
  std::vector<Nic> nics;
};

// Describes this machine, or the machine of an lstopo XML file when `xml` is not empty. Nothing when the library is
// missing or of another major version, or when the file cannot be read; `why_not` then holds the reason.
std::optional<HwlocView> hwloc_view(const std::string& library, const std::string& xml, std::string& why_not);

}  // namespace sccl::topology::probe
