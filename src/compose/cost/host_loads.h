// What a composite passes over the links of one host.
#pragma once

#include <utility>
#include <vector>

#include "compose/form/composite.h"

namespace sccl::compose {

// By edge, ascending: bytes per byte of L (schedule/simulation/cost.h).
using EdgeLoads = std::vector<std::pair<topology::Edge, double>>;

struct HostLoads {
  EdgeLoads links;        // of a kind's topology
  EdgeLoads connections;  // from device to device
};

// Adds so many times `more`.
void join(HostLoads& sum, const HostLoads& more, double times);

// Of the chunks of a schedule on one host, of which each carries its `part`.
HostLoads host_loads(const schedule::Schedule& schedule, const std::vector<double>& part);

// Of one byte that is divided among the ports by `share`; each port's part takes its chunks in turn.
HostLoads loads_of_turns(const schedule::Schedule& schedule, const std::vector<std::vector<ChunkId>>& turns,
                         const std::vector<double>& share);

// Of `bytes` that go from device to device, apart from sums and copies.
HostLoads loads_between(const HostKind& kind, const std::vector<std::vector<double>>& bytes);

// On the root's host, which passes so many chunks.
HostLoads loads_at_root(const Composite& composite, int chunks);

}  // namespace sccl::compose
