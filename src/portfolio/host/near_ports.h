// Which of a host's NICs serve which of its devices, where not every device has one: AlltoAll's blocks leave a host
// near their source and enter the next host near their target, so that few of them pass the host's slow links.
#pragma once

#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace sccl::portfolio {

// By device: the devices with NICs whose ports its blocks take in turn (compose::Host::near), all NICs in proportion to
// their rates. `between` passes blocks from device to device, and each device exchanges `others` blocks with other
// hosts for each one with another device of its host. The busiest link or NIC is the least busy that single moves and
// exchanges of ports reach.
std::vector<std::vector<int>> near_ports(const topology::Topology& links, const schedule::Schedule& between,
                                         std::span<const double> nic_gbytes_per_s, double others);

}  // namespace sccl::portfolio
