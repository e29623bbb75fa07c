// The one representation of every collective: timed chunk routes.
//
// A chunk is an interval of the data. Its route is a set of sends. Each send has the step in which it happens, and
// either copies (replaces the receiver's value) or reduces (adds the sender's partial sum to the receiver's). A send
// reads the sender's value at the beginning of the step. Ring, tree, recursive doubling, SCCL's synthesized and Blink's
// packed schedules are all values of this type.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "schedule/edge_index.h"
#include "topology/topology.h"

namespace sccl::schedule {

using ChunkId = int;
using Step = int;

enum class SendKind : std::uint8_t { copy, reduce };

struct Send {
  ChunkId chunk = 0;
  Rank src = 0;
  Rank dst = 0;
  Step step = 0;
  SendKind kind = SendKind::copy;
  bool operator==(const Send&) const = default;
};

struct Schedule {
  std::string name;  // of the planner, for people
  Collective collective = Collective::allreduce;
  int ranks = 0;
  Rank root = 0;
  topology::Topology topology;
  int chunks = 0;           // G of the SCCL paper
  int chunks_per_rank = 0;  // C of the SCCL paper
  int steps = 0;
  std::vector<int> rounds;      // by step
  std::vector<double> weights;  // by chunk, relative size within its block; empty: all equal
  bool pipelined = false;       // steps only give the order along a route (tree packings)
  // Of a Broadcast. The root has all data at once: its connections could go ahead of one another and take what they
  // share from those whose data other ranks wait for. None sends what is more than so many steps after the next send of
  // another one, nor a slice before all have sent the slice before; 0: each goes as it can.
  Step root_lead = 0;
  std::vector<Send> sends;
  bool operator==(const Schedule&) const = default;
};

// The ranks that contribute to a chunk and the ranks that must receive its value.
struct ChunkEnds {
  bool everyone_contributes = false;  // else only `source` contributes
  Rank source = 0;
  bool everyone_receives = false;  // else only `sink` receives
  Rank sink = 0;

  bool contributes(Rank rank) const { return everyone_contributes || rank == source; }
  bool receives(Rank rank) const { return everyone_receives || rank == sink; }
};

// SCCL's pre- and postconditions (Table 1) for one chunk.
ChunkEnds ends(Collective collective, int ranks, Rank root, ChunkId chunk);
ChunkEnds ends(const Schedule& schedule, ChunkId chunk);

// The number of chunks a schedule with `chunks_per_rank` pieces must have: C * ranks for allgather, gather and
// alltoall, C otherwise.
int chunk_count(Collective collective, int ranks, int chunks_per_rank);

// By chunk and rank, of a Broadcast or Reduce by trees: how many sends lie between the root and the rank.
std::vector<std::vector<int>> sends_from_root(const Schedule& schedule);

// The load of one step on the links, in chunks. A send between ranks that only switches join loads each edge of its
// path (topology::Routes).
struct StepLoads {
  struct EdgeLoad {
    EdgeId edge;
    int chunks;
  };
  Step step = 0;
  std::vector<EdgeLoad> edges;  // edges with a load, ascending
  std::vector<int> sets;        // by shared set
};

// Visits the steps that have sends, in ascending order. Returns a send whose ranks no path joins, if there is one.
// Ranks and steps must be in range. Takes O(sends) memory and O(sends + steps) time for paths of bounded length.
std::optional<Send> for_each_step(const Schedule& schedule, const EdgeIndex& edges,
                                  const std::function<void(const StepLoads&)>& visit);

// Positions in `sends`, sorted by step; sends of one step keep their order.
std::vector<int> order_by_step(const Schedule& schedule);

// By step: the fewest rounds that it can have on the schedule's topology (SCCL 3.2.3, condition C5).
std::vector<int> needed_rounds(const Schedule& schedule);

// Makes a schedule and derives the remaining fields: G, steps and rounds from the sends.
Schedule make_schedule(std::string name, Collective collective, Rank root, const topology::Topology& topology,
                       int chunks_per_rank, std::vector<Send> sends);

// The same routes with every chunk cut into `parts`.
Schedule divided(const Schedule& schedule, int parts);

}  // namespace sccl::schedule
