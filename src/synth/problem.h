// What is synthesized, freed of topologies and collectives: SCCL's SynColl instance (section 3.2).
//
// Chunks start at one rank and must reach others; a hop carries chunks from one rank to another in one step, over a
// link or through switches; capacities bound what hops carry together in a round (the paper's relation B). A hop
// through switches loads every edge of its path, as schedule::verify counts it.
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

// In a step of r rounds, the sum of times * chunks over the hops is at most lanes * r.
struct Capacity {
  struct Term {
    int hop = 0;
    int times = 1;
    auto operator<=>(const Term&) const = default;
  };
  int lanes = 1;
  std::vector<Term> terms;  // by ascending hop
};

// Chunks that start and end alike, the pieces of one block of data: interchangeable, and as many in each commodity.
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
  std::vector<std::vector<int>> distance;  // in hops, from and to; kUnreachable where no path leads

  int chunks() const;
  int pieces() const { return commodities.empty() ? 0 : static_cast<int>(commodities.front().chunks.size()); }
  // Hops that a chunk may still need from `rank` to the sink that is nearest: 0 at a sink.
  int distance_to_sinks(const Commodity& commodity, Rank rank) const;
};

// Throws invalid_argument when the collective combines chunks (invert it first), the root is no rank, or the number of
// chunks does not fit the collective.
Problem make_problem(const topology::Topology& topology, Collective collective, Rank root, int chunks_per_rank);

// The same commodities where every hop leads the other way.
Problem reversed(Problem problem);

// C of the paper for one piece of each commodity: ranks for scatter and alltoall, whose C counts the pieces for all
// destinations, else 1.
int chunks_per_piece(Collective collective, int ranks);

}  // namespace sccl::synth
