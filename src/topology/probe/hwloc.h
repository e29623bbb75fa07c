// PCI devices, NUMA nodes and NICs as hwloc sees them; serves where /sys does not, and reads recorded machines.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "topology/probe/pci_place.h"

namespace sccl::topology::probe {

struct HwlocView {
  std::map<std::string, Chain> chains;  // by PCI address of GPUs and NICs
  std::vector<Nic> nics;
};

// From this machine, or from an XML file of lstopo's when `xml` is not empty. Nothing when the library is missing or of
// another major version, or the file cannot be read; the reason is in `why_not`.
std::optional<HwlocView> hwloc_view(const std::string& library, const std::string& xml, std::string& why_not);

}  // namespace sccl::topology::probe
