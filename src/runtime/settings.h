// The settings that decide which schedule serves a call. All ranks use rank 0's, so that all choose alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/types.h"

namespace sccl::runtime {

enum class ProtocolChoice : std::uint8_t { automatic, simple, ll, direct };

struct Settings {
  std::string topology;    // SCCL_TOPO as given; empty: the host's own links
  std::string algorithms;  // SCCL_ALGO as given; empty: automatic
  ProtocolChoice protocol = ProtocolChoice::automatic;
  std::size_t slot_bytes = 0;
  bool direct_allowed = true;

  bool operator==(const Settings&) const = default;

  // The planner asked for by SCCL_ALGO for this collective, "" for automatic.
  std::string algorithm(Collective collective) const;
};

// From the environment, for a communicator of `ranks`; a value that is not understood is named in one warning and
// ignored. Slots shrink until SCCL_MEM_LIMIT holds them; system_error when not even the smallest fit.
Settings settings_from_environment(int ranks);

}  // namespace sccl::runtime
