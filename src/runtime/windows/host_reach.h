// Whether windows can be written: whether the processes of one host can write into one another's memory, and whether a
// program's buffer is memory. Within one host init finds the first out for all ranks; over hosts only windows need it,
// so it is found out when a window is registered.
#pragma once

#include <cstddef>
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

// Whether something is mapped at all addresses of the range. Takes a system call.
bool is_mapped(const void* base, std::size_t bytes);

}  // namespace sccl::runtime
