// What CUDA's and HIP's drivers say of pairs of devices: whether kernels of one may use the other's memory. They know
// nothing of links, but what they refuse no link helps, and in many containers they are the only library there is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/probe/devices.h"

namespace sccl::topology::probe {

struct PeerPair {
  std::string src, dst;   // PCI addresses
  bool access = false;    // kernels of src may use memory of dst
  bool own_link = false;  // by a link of their own: NVLink (which alone has atomic operations between devices), xGMI
};

struct Peers {
  Devices devices;  // those that this process may use; links as far as pairs tell them, one each
  std::vector<PeerPair> pairs;
};

// Nothing when the library is not there or does not start. HIP's is looked for under its versions' names as well. An
// empty name is that of no library.
std::optional<Peers> cuda_peers(const std::string& library_name, std::string& why_not);
std::optional<Peers> hip_peers(const std::string& library_name, std::string& why_not);

// Links between devices that may not use each other's memory go; one note for each pair.
void drop_refused(Devices& devices, const Peers& peers);

}  // namespace sccl::topology::probe
