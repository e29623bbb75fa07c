// Whether the processes of one host can write into one another's memory. Within one host init finds that out for all
// ranks; over hosts only windows need it, so it is found out when a window is registered.
#pragma once

#include <cstdint>
#include <string>

#include "base/types.h"

namespace sccl::runtime {

// Memory of this process, which stays. Its pattern belongs to this process alone.
struct ReachProbe {
  std::uint64_t address = 0;
  std::uint64_t pattern = 0;
};
ReachProbe reach_probe_of_process();

// Reads the pattern and writes a word there. Returns "" on success, else the obstacle.
std::string obstacle_to(Rank rank, int process, const ReachProbe& probe);

}  // namespace sccl::runtime
