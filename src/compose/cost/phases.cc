#include "compose/cost/phases.h"

#include <algorithm>

#include "schedule/simulation/cost.h"
#include "topology/graph/routes.h"

namespace sccl::compose {

void take_rates(Phase& phase, const schedule::EdgeInfo& link, const topology::Topology& topology) {
  const double lane_us_per_byte = schedule::lane_us_per_byte(link, topology);
  phase.us_per_byte = std::max(phase.us_per_byte, lane_us_per_byte);
  phase.link_us_per_byte = std::max(phase.link_us_per_byte, lane_us_per_byte / link.lanes);
}

Phase slower(const Phase& a, const Phase& b, int steps) {
  return {steps, std::max(a.alpha_us, b.alpha_us), std::max(a.us_per_byte, b.us_per_byte),
          std::max(a.link_us_per_byte, b.link_us_per_byte), std::max(a.connections, b.connections)};
}

Phase phase_of(const schedule::Schedule& schedule) {
  Phase phase;
  const schedule::EdgeIndex edges(schedule.topology);
  topology::Routes ways(schedule.topology);
  phase.steps = schedule.steps;
  if (schedule.topology.switches > 0) phase.connections = std::max(1, schedule.ranks - 1);
  for (const schedule::Send& send : schedule.sends) {
    double alpha_us = 0;
    for (const topology::Edge& edge : ways.path(send.src, send.dst)) {
      const schedule::EdgeInfo& link = edges[edges.find(edge)];
      alpha_us += link.alpha_us;
      take_rates(phase, link, schedule.topology);
    }
    phase.alpha_us = std::max(phase.alpha_us, alpha_us);
  }
  return phase;
}

}  // namespace sccl::compose
