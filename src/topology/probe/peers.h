// Peer access from CUDA's and HIP's drivers: whether kernels of one device may use another device's memory. The drivers
// know nothing of links. But a link between devices without peer access is useless, and in many containers the driver
// is the only library there is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/probe/devices.h"

namespace sccl::topology::probe {

struct PeerPair {
  std::string src, dst;   // PCI addresses
  bool access = false;    // kernels of src may use memory of dst
  bool own_link = false;  // over NVLink (only NVLink has atomic operations between devices) or xGMI
};

struct Peers {
  Devices devices;  // the devices that this process may use; a pair with a link of its own has one link
  std::vector<PeerPair> pairs;
};

// Nothing when the library is missing or does not start. HIP's library is also searched under versioned names. An empty
// name means no library.
std::optional<Peers> cuda_peers(const std::string& library_name, std::string& why_not);
std::optional<Peers> hip_peers(const std::string& library_name, std::string& why_not);

// Removes links between devices without peer access; adds one note for each pair.
void drop_refused(Devices& devices, const Peers& peers);

}  // namespace sccl::topology::probe
