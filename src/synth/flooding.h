// A schedule of many short steps without a search. Greedy: in each step, each hop sends the most urgent chunk (few
// holders, or far to go).
//
// One round per step, no look-ahead. The schedule needs more steps than a search would allow, but keeps hops busy. It
// gives good bandwidth on machines too large to search, and for any number of chunks.
#pragma once

#include <optional>

#include "synth/shortest_paths.h"

namespace sccl::synth {

// Every sink must be reachable. Chunks with one sink follow shortest paths. Nothing where the work, chunks * hops per
// step, is too much.
std::optional<Routed> flooding(const Problem& problem);

}  // namespace sccl::synth
