// Schedules of the papers, written down as their text describes them.
#pragma once

#include <vector>

#include "schedule/schedule.h"
#include "topology/presets.h"

namespace sccl::schedule {

// A cycle over all ranks, and how many of a rank's chunks travel along it.
struct Cycle {
  std::vector<Rank> ranks;
  int chunks = 1;
};

// AllGather: every chunk goes once round its cycle. Chunk (piece, rank) has the number piece * ranks + rank.
inline Schedule all_gather_on_cycles(const topology::Topology& topology, const std::vector<Cycle>& cycles) {
  std::vector<Send> sends;
  int piece = 0;
  for (const Cycle& cycle : cycles)
    for (int i = 0; i < cycle.chunks; ++i, ++piece)
      for (int step = 0; step + 1 < topology.ranks; ++step)
        for (int start = 0; start < topology.ranks; ++start) {
          const auto at = [&](int position) {
            return cycle.ranks[static_cast<std::size_t>(position % topology.ranks)];
          };
          const ChunkId chunk = piece * topology.ranks + at(start);
          sends.push_back({chunk, at(start + step), at(start + step + 1), step, SendKind::copy});
        }
  return make_schedule("cycles", Collective::allgather, 0, topology, piece, std::move(sends));
}

inline std::vector<Rank> reversed(std::vector<Rank> ranks) { return {ranks.rbegin(), ranks.rend()}; }

// SCCL 2.2 in FORMATS' numbering: a cycle of doubled NVLinks and one of single ones, each in both directions.
inline const std::vector<Rank> kDoubledCycle{0, 3, 2, 1, 5, 6, 7, 4};
inline const std::vector<Rank> kSingleCycle{0, 1, 3, 7, 5, 4, 6, 2};

// NCCL's six rings on a DGX-1V.
inline Schedule nccl_six_rings(const topology::Topology& topology) {
  return all_gather_on_cycles(
      topology, {{kDoubledCycle, 2}, {reversed(kDoubledCycle), 2}, {kSingleCycle, 1}, {reversed(kSingleCycle), 1}});
}

// A path of ranks 0 - 1 - 2 - ... and the pieces of rank 0's buffer going along it, one step behind one another.
inline Schedule broadcast_on_path(int ranks, int pieces, double gbytes_per_s, double alpha_us) {
  topology::Topology path;
  path.name = "path";
  path.ranks = ranks;
  for (Rank rank = 0; rank + 1 < ranks; ++rank)
    path.links.push_back({rank, rank + 1, 1, gbytes_per_s, alpha_us, topology::LinkClass::nvlink});
  std::vector<Send> sends;
  for (int piece = 0; piece < pieces; ++piece)
    for (Rank rank = 0; rank + 1 < ranks; ++rank)
      sends.push_back({piece, rank, rank + 1, rank + piece, SendKind::copy});
  return make_schedule("path", Collective::broadcast, 0, path, pieces, std::move(sends));
}

}  // namespace sccl::schedule
