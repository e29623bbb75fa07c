// Which devices of an engine a rank of a host uses: those nearest to its own device on PCI, and so that the ranks of
// the host together use all.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace sccl::net {

// Where a device hangs: its NUMA node, then the names on its way from the root of PCI. Empty: nobody knows.
using Place = std::vector<std::string>;
// `path`: of a device in /sys/devices.
Place place_of(const std::string& path);

// The numbers, in `devices`, of those that a rank uses, the nearest first. `ranks`: places of all ranks of the host,
// the same at all of them; `each`: how many every rank uses. Devices that are equally near are taken in turns.
std::vector<int> nearest_devices(std::size_t rank, std::span<const Place> devices, std::span<const Place> ranks,
                                 int each);

}  // namespace sccl::net
