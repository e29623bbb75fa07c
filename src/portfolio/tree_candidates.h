// Candidates made of packed trees: over lanes, over links of different bandwidth, in three phases between servers,
// along rings; and each of them in frames for long transfers.
#pragma once

#include <vector>

#include "portfolio/portfolio.h"

namespace sccl::portfolio {

// Appends the candidates. None for collectives without trees, for ranks that are not connected, and for machines too
// large to pack during a call. Work is limited: at most a few seconds for 32 ranks, a tenth of a second for a single
// machine.
void add_trees(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective, Rank root);

// The two parts of it: what is quick to make, and packings, which take most of that time where every rank is a root.
void add_rings_and_phases(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective,
                          Rank root);
void add_packed_trees(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective,
                      Rank root);

}  // namespace sccl::portfolio
