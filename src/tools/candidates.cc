#include "tools/candidates.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "planners/planners.h"
#include "schedule/cost.h"

namespace sccl::tools {
namespace {

std::string planner_names() {
  std::string names;
  for (const planners::Planner& planner : planners::table()) names += (names.empty() ? "" : ", ") + std::string(planner.name);
  return names;
}

void check_root(const topology::Topology& machine, const Call& call) {
  if (call.root < 0 || call.root >= machine.ranks)
    fail(ErrorCode::invalid_argument, "root {} is not a rank of 0..{}", call.root, machine.ranks - 1);
}

[[noreturn]] void refuse(const std::string& who, const topology::Topology& machine, const Call& call) {
  fail(ErrorCode::invalid_argument, "{}: no schedule for {} on topology '{}' of {} ranks: it has too few links, or another number of ranks is needed",
       who, info(call.collective).name, machine.name, machine.ranks);
}

}  // namespace

Collective parse_collective_name(const std::string& name) {
  const auto collective = collective_from_name(name);
  if (!collective || *collective == Collective::sendrecv)
    throw CLI::ValidationError("'" + name +
                               "' is no collective: use allreduce, allgather, reducescatter, broadcast, reduce, alltoall, "
                               "gather or scatter");
  return *collective;
}

schedule::Schedule plan_by(const std::string& algorithm, const topology::Topology& machine, const Call& call) {
  const planners::Planner* planner = planners::find(algorithm);
  if (planner == nullptr) fail(ErrorCode::invalid_argument, "no planner is called '{}': use {}", algorithm, planner_names());
  check_root(machine, call);
  auto schedule = planner->plan(machine, call.collective, call.root);
  if (!schedule) refuse("planner " + algorithm, machine, call);
  return *std::move(schedule);
}

std::vector<Candidate> candidates(const topology::Topology& machine, const Call& call,
                                  const schedule::SimulationOptions& options) {
  check_root(machine, call);
  std::vector<Candidate> found;
  for (const planners::Planner& planner : planners::table()) {
    auto schedule = planner.plan(machine, call.collective, call.root);
    if (!schedule) continue;
    Candidate candidate{std::string(planner.name), *std::move(schedule), 0, 0};
    candidate.time_us = schedule::simulate(candidate.schedule, options).time_us;
    const int slices = candidate.schedule.pipelined && options.slice_bytes > 0
                           ? std::max(1, static_cast<int>(std::ceil(call.bytes / options.slice_bytes)))
                           : 1;
    candidate.closed_form_us = schedule::linear_cost(candidate.schedule, slices).time_us(call.bytes);
    found.push_back(std::move(candidate));
  }
  if (found.empty()) refuse("every planner", machine, call);
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) { return a.time_us < b.time_us; });
  return found;
}

}  // namespace sccl::tools
