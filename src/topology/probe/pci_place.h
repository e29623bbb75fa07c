// Positions of PCI devices: the CPU and the switches above each device, from any source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/system/system.h"

namespace sccl::topology::probe {

// The elements from the CPU down to the device, each with its attributes and without children.
using Chain = std::vector<Element>;

struct Nic {
  std::string busid;  // empty: not on PCI
  Element net;
};

// Adds the chain to the tree; existing attributes keep their values. Returns the device's element.
Element& place(Element& system, const Chain& chain);

// Selects the PCI addresses that NCCL names. `way` holds all addresses on the way to a device, the root port first and
// the device last. A switch takes two addresses, its upper port and the port down to the device; NCCL names the upper
// port only.
std::vector<std::string> without_lower_ports(const std::vector<std::string>& way);

}  // namespace sccl::topology::probe
