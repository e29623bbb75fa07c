// Shared by the planners: collects sends, and refuses sends between ranks that no path joins.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedule/schedule.h"
#include "topology/graph/routes.h"

namespace sccl::planners {

class RouteBuilder {
 public:
  void copy(schedule::ChunkId chunk, Rank src, Rank dst, schedule::Step step) {
    sends_.push_back({chunk, src, dst, step, schedule::SendKind::copy});
  }
  void reduce(schedule::ChunkId chunk, Rank src, Rank dst, schedule::Step step) {
    sends_.push_back({chunk, src, dst, step, schedule::SendKind::reduce});
  }

  // Nothing when the topology has no path for some send.
  std::optional<schedule::Schedule> finish(std::string name, Collective collective, Rank root,
                                           const topology::Topology& topology, int chunks_per_rank) && {
    topology::Routes routes(topology);
    for (const schedule::Send& send : sends_)
      if (!routes.connected(send.src, send.dst)) return std::nullopt;
    return schedule::make_schedule(std::move(name), collective, root, topology, chunks_per_rank, std::move(sends_));
  }

 private:
  std::vector<schedule::Send> sends_;
};

}  // namespace sccl::planners
