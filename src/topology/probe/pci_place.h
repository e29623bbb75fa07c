// Where PCI devices are: the CPU and the switches above each, however that was found out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/system.h"

namespace sccl::topology::probe {

// From the CPU down to the device, each with its attributes and without children.
using Chain = std::vector<Element>;

struct Nic {
  std::string busid;  // empty: not on PCI
  Element net;
};

// Puts the chain into the tree; attributes that are there stay. Returns the device's element.
Element& place(Element& system, const Chain& chain);

// Of the PCI addresses on the way to a device, root port first and the device last, those that NCCL names: a switch is
// two levels, the port above it and the port down to the device, and stands for itself once.
std::vector<std::string> without_lower_ports(const std::vector<std::string>& way);

}  // namespace sccl::topology::probe
