#include "topology/probe/pci_place.h"

#include <algorithm>

namespace sccl::topology::probe {

Element& place(Element& system, const Chain& chain) {
  Element* at = &system;
  for (const Element& link : chain) {
    at = &at->child(link.tag, link.tag == "cpu" ? "numaid" : "busid", link.get(link.tag == "cpu" ? "numaid" : "busid"));
    for (const auto& [name, value] : link.attributes) at->set_if_missing(name, value);
  }
  return *at;
}

std::vector<std::string> without_lower_ports(const std::vector<std::string>& way) {
  std::vector<std::string> named;
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(way.size()) - 1; at >= 0; at -= 2) {
    // The address left above the uppermost switch is a port of the CPU's bridge.
    if (at == 0 && !named.empty()) break;
    named.push_back(way[static_cast<std::size_t>(at)]);
  }
  std::reverse(named.begin(), named.end());
  return named;
}

}  // namespace sccl::topology::probe
