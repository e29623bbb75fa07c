#include "compose/cost/phases.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "schedule/simulation/cost.h"
#include "topology/graph/routes.h"

namespace sccl::compose {

namespace {

constexpr double kBusy = 0.95;  // of the busiest link's time: such a link may be the one that all wait for

struct Passing {           // of a link
  double us_per_byte = 0;  // of every chunk
  std::set<std::pair<Rank, Rank>> connections;
};

int connections_of_busiest(const std::map<schedule::EdgeId, Passing>& passing) {
  double most = 0;
  for (const auto& [edge, one] : passing) most = std::max(most, one.us_per_byte);
  std::size_t fewest = passing.empty() ? 1 : std::numeric_limits<std::size_t>::max();
  for (const auto& [edge, one] : passing)
    if (one.us_per_byte >= kBusy * most) fewest = std::min(fewest, one.connections.size());
  return static_cast<int>(fewest);
}

}  // namespace

void take_rates(Phase& phase, const schedule::EdgeInfo& link, const topology::Topology& topology) {
  const double lane_us_per_byte = schedule::lane_us_per_byte(link, topology);
  phase.us_per_byte = std::max(phase.us_per_byte, lane_us_per_byte);
  phase.link_us_per_byte = std::max(phase.link_us_per_byte, lane_us_per_byte / link.lanes);
}

Phase slower(const Phase& a, const Phase& b, int steps) {
  return {steps,
          std::max(a.alpha_us, b.alpha_us),
          std::max(a.us_per_byte, b.us_per_byte),
          std::max(a.link_us_per_byte, b.link_us_per_byte),
          std::max(a.connections, b.connections),
          std::max(a.slots, b.slots)};
}

Phase phase_of(const schedule::Schedule& schedule) {
  Phase phase;
  const schedule::EdgeIndex edges(schedule.topology);
  topology::Routes ways(schedule.topology);
  phase.steps = schedule.steps;
  std::map<schedule::EdgeId, Passing> passing;
  for (const schedule::Send& send : schedule.sends) {
    double alpha_us = 0;
    for (const topology::Edge& edge : ways.path(send.src, send.dst)) {
      const schedule::EdgeId id = edges.find(edge);
      const schedule::EdgeInfo& link = edges[id];
      alpha_us += link.alpha_us;
      take_rates(phase, link, schedule.topology);
      Passing& here = passing[id];
      here.us_per_byte += schedule::lane_us_per_byte(link, schedule.topology) / link.lanes;
      here.connections.emplace(send.src, send.dst);
    }
    phase.alpha_us = std::max(phase.alpha_us, alpha_us);
  }
  phase.connections = connections_of_busiest(passing);
  return phase;
}

int steps_to_ports(const Composite& composite, const Routes& routes) {
  const auto depths = schedule::sends_from_root(composite.at_root->schedule);
  const auto host = static_cast<std::size_t>(routes.host_of(composite.root));
  const std::vector<int>& ports = composite.hosts[host].ports;
  const std::vector<ChunkId>& turns = composite.root_turns;
  int most = 0;
  for (std::size_t place = 0; place < std::lcm(turns.size(), ports.size()); ++place) {
    const auto chunk = static_cast<std::size_t>(turns[place % turns.size()]);
    most = std::max(most, depths[chunk][static_cast<std::size_t>(ports[place % ports.size()])]);
  }
  return most;
}

}  // namespace sccl::compose
