// How much faster than rings a Broadcast and an AllReduce can be at all: by root, and by what PCIe gives the rings of
// devices that NVLink joins in no cycle.
#pragma once

#include <string>

namespace sccl::bench {

// Markdown: over all classes of both machines, Edmonds' rate over the rings' rate and the simulated speedup of a
// Broadcast, with the first device, the best one and the mean one as root.
std::string root_table();

// Markdown: the speedups over all classes of both machines for several rates of PCIe rings, beside the paper's figures.
std::string pcie_table();

}  // namespace sccl::bench
