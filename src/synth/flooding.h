// A schedule of many short steps at once: every hop carries in every step what is rarest where it leads.
//
// One round a step, no look-ahead and no search. It needs more steps than a search would allow but keeps hops busy, so
// it shows what bandwidth there is on machines too large to search, and for as many chunks as one likes.
#pragma once

#include <optional>

#include "synth/shortest_paths.h"

namespace sccl::synth {

// Every sink must be reachable. Chunks with one sink keep to shortest paths. Nothing where the work, chunks * hops a
// step, is too much.
std::optional<Routed> flooding(const Problem& problem);

}  // namespace sccl::synth
