// Allocations of machines that tests go through.
#pragma once

#include <string>
#include <vector>

#include "topology/presets.h"
#include "treegen/graph/links.h"

namespace sccl::treegen {

inline std::string text(const std::vector<int>& devices) {
  std::string result;
  for (const int device : devices) result += std::to_string(device);
  return result;
}

inline bool is_connected(const topology::Topology& topology) {
  const Links links(topology);
  try {
    links.require_reachable(0);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// All sets of devices of a preset whose own links join them.
inline std::vector<std::vector<int>> connected_subsets(const char* preset, int least = 3, int most = 8) {
  const auto machine = topology::preset(preset);
  std::vector<std::vector<int>> result;
  for (unsigned set = 1; set < 1u << machine.ranks; ++set) {
    std::vector<int> devices;
    for (int device = 0; device < machine.ranks; ++device)
      if (set >> device & 1) devices.push_back(device);
    const int count = static_cast<int>(devices.size());
    if (count >= least && count <= most && is_connected(topology::subset(machine, devices)))
      result.push_back(std::move(devices));
  }
  return result;
}

}  // namespace sccl::treegen
