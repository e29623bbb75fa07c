// The schedules that could serve a call on a machine, with the times the simulator foresees.
#pragma once

#include <string>
#include <vector>

#include "schedule/simulate.h"

namespace sccl::tools {

// How transfers are cut and buffered: as this library's programs do it.
inline constexpr double kSliceBytes = 128 * 1024;
inline constexpr int kSlots = 4;

struct Call {
  Collective collective = Collective::allreduce;
  Rank root = 0;
  double bytes = 0;  // the L of schedule/cost.h
};

struct Candidate {
  std::string algorithm;
  schedule::Schedule schedule;
  double time_us = 0;
  double closed_form_us = 0;
};

// Throws CLI::ValidationError when no collective that can be planned has the name.
Collective parse_collective_name(const std::string& name);

// Of every planner that has a schedule for the call, fastest first. Throws invalid_argument when there is none.
std::vector<Candidate> candidates(const topology::Topology& machine, const Call& call,
                                  const schedule::SimulationOptions& options);

// Of one planner. Throws invalid_argument when there is no such planner or it has none for the call.
schedule::Schedule plan_by(const std::string& algorithm, const topology::Topology& machine, const Call& call);

}  // namespace sccl::tools
