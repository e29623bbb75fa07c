// Candidates that are packed trees: over lanes, over links of different bandwidth, in three phases between servers,
// along rings, and each of them in frames for long transfers.
#pragma once

#include <vector>

#include "portfolio/portfolio.h"

namespace sccl::portfolio {

// Appends them; none for collectives without trees, ranks that are not joined, and machines too large to pack on a
// call's path. Bounded in work: at most a few seconds for 32 ranks, a tenth of one for a single machine.
void add_trees(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective, Rank root);

}  // namespace sccl::portfolio
