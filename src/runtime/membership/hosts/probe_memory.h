// Memory by which ranks of one host try at init whether the system lets them read and write one another's.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <vector>

namespace sccl::runtime {

// Private memory with a pattern and a cell for every peer. Peers read the pattern and write their cell, to test whether
// the system lets them.
struct Probe {
  std::uint64_t pattern = 0;
  std::uint64_t cells_address = 0;
};
struct ProbeMemory {
  Probe probe;
  std::vector<std::uint64_t> cells;  // by writing rank
};
using ProbeMemories = std::list<ProbeMemory>;  // a list's elements move to another list without an allocation

// Keeps the probe memory of ranks whose init failed. Peers may read and write it until they learn of the failure.
class KeptProbes {
 public:
  static KeptProbes& of_process() {
    static KeptProbes* const kept = new KeptProbes;  // never destroyed: peers may write while the process ends
    return *kept;
  }
  void keep(ProbeMemories& memory) noexcept {
    const std::lock_guard lock(mutex_);
    kept_.splice(kept_.end(), memory);
  }

 private:
  std::mutex mutex_;
  ProbeMemories kept_;
};

}  // namespace sccl::runtime
