// Which NUMA node memory lies on.
#pragma once

#include <cstddef>
#include <string>

namespace sccl::host {

// The node nearest to a PCI device ("0000:0a:00.0"), as the kernel tells; -1 where it does not.
int node_of_pci_device(const std::string& pci_id);

// Pages of this mapping that are not there yet will come from `node`, if it has any left. `data` begins a page. Does
// nothing for -1, and where the system call is not allowed: memory on another node is slower, not wrong.
void prefer_node(std::byte* data, std::size_t bytes, int node);

}  // namespace sccl::host
