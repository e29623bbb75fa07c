// Which way data takes between the devices of two ranks: through device memory that is mapped into both address spaces,
// or through host memory that both see. Each rank judges its paths to its peers. A pair uses device memory only if both
// of its ranks judge the path good, so all ranks draw the same conclusion from all verdicts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace sccl::runtime {

// In the order of importance: of two verdicts for a pair the larger one counts.
enum class PathVerdict : std::uint8_t {
  good,
  unseen,      // a running kernel did not see what the peer stored
  timed_out,   // data did not arrive in both directions in time
  wrong_data,  // other data arrived than was sent
  unmapped,    // the driver refuses to map the peer's memory
  no_access,   // the driver says that the devices cannot reach each other
  too_far,     // NCCL_P2P_LEVEL
  disabled,    // NCCL_P2P_DISABLE
};

// The verdicts of all ranks about all ranks; the same at every rank.
class PathTable {
 public:
  PathTable() = default;
  // `verdicts`: by judging rank, then by judged rank. Throws invalid_usage when a row has another length.
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

// The largest distance at which two devices may reach each other directly, by the names of NCCL_P2P_LEVEL.
enum class Distance : std::uint8_t { same_device, nvlink, one_switch, switches, host_bridge, system };

// The distance of two PCI addresses according to the kernel and the vendor's management library; `system` if unknown.
Distance distance_between(const std::string& pci_id, const std::string& other_pci_id);

// What this process's settings say about a pair. Looks up the distance only when a level is set.
PathVerdict allowed_path(const std::string& pci_id, const std::string& other_pci_id);

// "NCCL_P2P_DISABLE is set", or what may be wrong with the machine and how to look.
std::string cause(PathVerdict verdict);

}  // namespace sccl::runtime
