// Candidates made of packed trees: over lanes, over links of different bandwidth, in three phases between servers,
// along rings; and each of them in frames for long transfers.
#pragma once

#include <cstdint>
#include <vector>

#include "portfolio/flat/candidate.h"

namespace sccl::portfolio {

// What to add: all, or only what is quick to make. Packings take most of the time where every rank is a root.
enum class TreeKinds : std::uint8_t { all, quick };

// Appends the candidates. None for collectives without trees, for ranks that are not connected, and for machines too
// large to pack during a call. Work is limited: at most a few seconds for 32 ranks, a tenth of a second for a single
// machine.
void add_trees(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective, Rank root,
               TreeKinds kinds = TreeKinds::all);

}  // namespace sccl::portfolio
