// The synthesis problem without topologies and collectives: SCCL's SynColl instance (section 3.2).
//
// A chunk starts at one rank and must reach other ranks. A hop carries chunks from one rank to another in one step,
// over a link or through switches. Capacities bound what hops carry together in a round (the paper's relation B). A hop
// through switches loads every edge of its path, as in schedule::verify.
#pragma once

#include <utility>
#include <vector>

#include "schedule/schedule.h"

namespace sccl::synth {

struct Hop {
  Rank src = 0;
  Rank dst = 0;
  auto operator<=>(const Hop&) const = default;
};

// In a step of r rounds, the sum of times * (chunks of the hop) over all terms is at most lanes * r.
struct Capacity {
  struct Term {
    int hop = 0;
    int times = 1;
    auto operator<=>(const Term&) const = default;
  };
  int lanes = 1;
  std::vector<Term> terms;  // by ascending hop
};

// Chunks with the same source and sinks: the pieces of one block of data. They are interchangeable, and every commodity
// has the same number of them.
struct Commodity {
  Rank source = 0;
  std::vector<bool> sinks;  // by rank; never the source
  std::vector<schedule::ChunkId> chunks;
};

inline constexpr int kUnreachable = 1 << 20;

struct Problem {
  int ranks = 0;
  std::vector<Hop> hops;
  std::vector<Capacity> capacities;
  std::vector<Commodity> commodities;
  std::vector<std::vector<int>> hops_from;  // by rank
  std::vector<std::vector<int>> hops_into;
  std::vector<std::vector<int>> distance;  // in hops, by source and destination; kUnreachable without a path

  int chunks() const;
  int pieces() const { return commodities.empty() ? 0 : static_cast<int>(commodities.front().chunks.size()); }
  // Hops from `rank` to the nearest sink of the chunk: 0 at a sink.
  int distance_to_sinks(const Commodity& commodity, Rank rank) const;
};

// Throws invalid_argument when the collective reduces chunks (invert it first), the root is no rank, or the number of
// chunks does not fit the collective.
Problem make_problem(const topology::Topology& topology, Collective collective, Rank root, int chunks_per_rank);

// The same commodities, with every hop reversed.
Problem reversed(Problem problem);

// C of the paper for one piece of each commodity: the number of ranks for scatter and alltoall, whose C counts the
// pieces for all destinations, else 1.
int chunks_per_piece(Collective collective, int ranks);

}  // namespace sccl::synth
