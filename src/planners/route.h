// What the planners share: collecting sends and refusing links that do not exist.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schedule/schedule.h"

namespace sccl::planners {

class RouteBuilder {
 public:
  void copy(schedule::ChunkId chunk, Rank src, Rank dst, schedule::Step step) {
    sends_.push_back({chunk, src, dst, step, schedule::SendKind::copy});
  }
  void reduce(schedule::ChunkId chunk, Rank src, Rank dst, schedule::Step step) {
    sends_.push_back({chunk, src, dst, step, schedule::SendKind::reduce});
  }

  // Nothing when a send needs a link that the topology lacks.
  std::optional<schedule::Schedule> finish(std::string name, Collective collective, Rank root,
                                           const topology::Topology& topology, int chunks_per_rank) && {
    std::set<std::pair<Rank, Rank>> links;
    for (const topology::Link& link : topology.links) links.emplace(link.src, link.dst);
    for (const schedule::Send& send : sends_)
      if (!links.contains({send.src, send.dst})) return std::nullopt;
    return schedule::make_schedule(std::move(name), collective, root, topology, chunks_per_rank, std::move(sends_));
  }

 private:
  std::vector<schedule::Send> sends_;
};

}  // namespace sccl::planners
