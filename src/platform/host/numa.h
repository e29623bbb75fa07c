// The NUMA node on which memory lies.
#pragma once

#include <cstddef>
#include <string>

namespace sccl::host {

// The node nearest to a PCI device ("0000:0a:00.0") according to the kernel; -1 if unknown.
int node_of_pci_device(const std::string& pci_id);

// Untouched pages of this mapping will come from `node` if it has memory left. `data` must begin a page. Does nothing
// for -1 or if the system call is not allowed: memory on another node is slower, not wrong.
void prefer_node(std::byte* data, std::size_t bytes, int node);

}  // namespace sccl::host
