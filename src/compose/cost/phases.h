// What a phase of a composite takes for each of its steps.
#pragma once

#include <span>

#include "compose/cost/cost.h"
#include "schedule/edge_index.h"
#include "schedule/schedule.h"
#include "topology/graph/routes.h"

namespace sccl::compose {

// Lets the phase pass one link more.
void take_rates(Phase& phase, const schedule::EdgeInfo& link, const topology::Topology& topology);

// The greater figures of both.
Phase slower(const Phase& a, const Phase& b, int steps);

// Of what passes from a device of a host to another one.
Connection connection_of(const schedule::EdgeIndex& edges, std::span<const topology::Edge> path,
                         const topology::Topology& topology);

// The longest latency, the slowest lane and the slowest link of a schedule's steps.
Phase phase_of(const schedule::Schedule& schedule);

// The most sends between the root and the port by which a chunk leaves the root's host, or comes to it. Of a composite
// that has `at_root` without exits.
int steps_to_ports(const Composite& composite, const Routes& routes);

}  // namespace sccl::compose
