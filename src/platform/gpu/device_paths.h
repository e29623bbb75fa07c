// Which way data take between two ranks' devices: through memory of the devices, mapped into one another's address
// spaces, or through host memory that both see. What each rank finds out about its peers is a verdict; a pair goes by
// device memory only when both its ends find it good, so that all ranks draw the same picture from all verdicts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace sccl::runtime {

// In the order in which they explain a pair: of two verdicts the larger one counts.
enum class PathVerdict : std::uint8_t {
  good,
  unseen,      // what the peer stores did not show itself to a kernel that was running
  timed_out,   // data did not go both ways in time
  wrong_data,  // other data arrived than were sent
  unmapped,    // the driver refuses to map the peer's memory
  no_access,   // the driver says that the devices cannot reach each other
  too_far,     // NCCL_P2P_LEVEL
  disabled,    // NCCL_P2P_DISABLE
};

// All ranks' verdicts about all, the same at every rank.
class PathTable {
 public:
  PathTable() = default;
  // By judging rank, then by the rank that is judged. Throws invalid_usage when a row has another length.
  explicit PathTable(const std::vector<std::vector<PathVerdict>>& verdicts);

  PathVerdict verdict(Rank one, Rank other) const { return worst_[static_cast<std::size_t>(one * ranks_ + other)]; }
  bool staged(Rank one, Rank other) const { return verdict(one, other) != PathVerdict::good; }
  bool any_staged() const;
  // The ranks whose messages to `receiver` go through host memory, in ascending order.
  std::vector<Rank> staged_sources(Rank receiver) const;

 private:
  int ranks_ = 0;
  std::vector<PathVerdict> worst_;
};

// How far apart two devices may be to reach each other directly, as NCCL_P2P_LEVEL names distances.
enum class Distance : std::uint8_t { same_device, nvlink, one_switch, switches, host_bridge, system };

// Of two PCI addresses, from what the kernel and the vendor's management library tell; `system` where they do not.
Distance distance_between(const std::string& pci_id, const std::string& other_pci_id);

// What this process's settings say of a pair. Asks for the distance only when a level is set.
PathVerdict allowed_path(const std::string& pci_id, const std::string& other_pci_id);

// "NCCL_P2P_DISABLE is set", or what may be wrong with the machine and how to look.
std::string cause(PathVerdict verdict);

}  // namespace sccl::runtime
