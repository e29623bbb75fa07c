#include "tools/input/candidates.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "compose/lowering/expand.h"
#include "planners/planners.h"
#include "portfolio/clusters/cluster_planner.h"
#include "schedule/simulation/cost.h"

namespace sccl::tools {
namespace {

constexpr std::string_view kSearchedKinds[] = {"rings",   "trees", "hybrid",     "three-phase",
                                               "detours", "synth", "even-trees", "levels"};

std::vector<std::string_view> kinds_of_schedules() {
  std::vector<std::string_view> names;
  for (const planners::Planner& planner : planners::table()) names.push_back(planner.name);
  names.insert(names.end(), std::begin(kSearchedKinds), std::end(kSearchedKinds));
  return names;
}

void check_root(const topology::Topology& machine, const Call& call) {
  if (call.root < 0 || call.root >= machine.ranks)
    fail(ErrorCode::invalid_argument, "root {} is not a rank of 0..{}", call.root, machine.ranks - 1);
}

double closed_form_us(const schedule::Schedule& schedule, const Call& call, double slice_bytes) {
  const int slices =
      schedule.pipelined && slice_bytes > 0 ? std::max(1, static_cast<int>(std::ceil(call.bytes / slice_bytes))) : 1;
  return schedule::linear_cost(schedule, slices).time_us(call.bytes);
}

}  // namespace

Collective parse_collective_name(const std::string& name) {
  const auto collective = collective_from_name(name);
  if (!collective || *collective == Collective::sendrecv)
    throw CLI::ValidationError("'" + name + "' is no collective: use " + kCollectiveNames);
  return *collective;
}

void check_algorithm_name(const std::string& algorithm) {
  const std::vector<std::string_view> kinds = kinds_of_schedules();
  if (std::ranges::none_of(kinds, [&](std::string_view kind) { return algorithm.starts_with(kind); }))
    fail(ErrorCode::invalid_argument, "'{}' is no kind of schedules: use one of {}", algorithm, fmt::join(kinds, ", "));
}

void require_predictions(const std::vector<portfolio::Prediction>& predictions, const topology::Topology& machine) {
  if (predictions.empty())
    fail(ErrorCode::invalid_argument, "topology '{}' has links without bandwidths: nothing can be predicted",
         machine.name);
}

std::vector<Candidate> candidates(const topology::Topology& machine, const Call& call,
                                  const schedule::SimulationOptions& options) {
  auto all = portfolio::candidates(machine, call.collective, call.root);
  const auto predictions = portfolio::predict(all, options);
  require_predictions(predictions, machine);
  std::vector<Candidate> found;
  for (const portfolio::Prediction& prediction : predictions) {
    portfolio::Candidate& one = all[prediction.candidate];
    const double closed_form = one.cost != nullptr ? one.cost->time_us(call.bytes, prediction.slice_bytes)
                                                   : closed_form_us(*one.schedule, call, options.slice_bytes);
    found.push_back({std::move(one.name), one.cost, std::move(one.schedule), prediction.time_us, closed_form,
                     prediction.slice_bytes});
  }
  return found;
}

std::vector<LevelsCandidate> levels_candidates(const topology::Topology& machine, const Call& call,
                                               double slice_bytes) {
  std::vector<LevelsCandidate> found;
  if (!portfolio::by_levels_alone(machine)) return found;
  check_root(machine, call);
  portfolio::ClusterPlanner planner(machine);
  auto all = planner.candidates(call.collective, call.root);
  const schedule::SimulationOptions options = portfolio::Pipeline{slice_bytes}.simulated(call.bytes);
  for (const portfolio::RankedComposite& one : portfolio::ranked(all, options, portfolio::Slices::best_of_first)) {
    const double closed_form_us = all[one.candidate].cost.time_us(call.bytes, one.slice_bytes);
    found.push_back({std::move(all[one.candidate]), one.slice_bytes, one.time_us, closed_form_us});
  }
  return found;
}

Planned plan_by(const std::string& algorithm, const topology::Topology& machine, const Call& call,
                const schedule::SimulationOptions& options) {
  check_root(machine, call);
  check_algorithm_name(algorithm);
  // An algorithm that needs no search does not wait for the searches of others.
  if (const planners::Planner* planner = planners::find(algorithm); planner != nullptr) {
    // Every rank's block passes every rank, or every pair of ranks has a block.
    constexpr int kMostFlatRanks = 1448;  // whose square is about 2^21 sends, a gigabyte with their simulation
    if (machine.ranks > kMostFlatRanks)
      fail(ErrorCode::invalid_argument,
           "'{}' on {} ranks has too many sends: up to {} ranks have a flat form, more have forms by levels "
           "(levels/...)",
           algorithm, machine.ranks, kMostFlatRanks);
    if (auto schedule = planner->plan(machine, call.collective, call.root))
      return {*std::move(schedule), options.slice_bytes};
  } else if (portfolio::by_levels_alone(machine)) {
    for (const LevelsCandidate& one : levels_candidates(machine, call, options.slice_bytes))
      if (portfolio::answers_to(one.plan.name(), algorithm))
        return {compose::expand(*one.plan.to_run()), one.slice_bytes};
  } else {
    auto all = portfolio::candidates(machine, call.collective, call.root, algorithm);
    for (const portfolio::Prediction& prediction : portfolio::predict(all, options))
      if (portfolio::answers_to(all[prediction.candidate], algorithm))
        return {*all[prediction.candidate].schedule, prediction.slice_bytes};
  }
  fail(ErrorCode::invalid_argument,
       "'{}' has no schedule for {} on topology '{}' of {} ranks: use other links, or one of {}", algorithm,
       info(call.collective).name, machine.name, machine.ranks, fmt::join(kinds_of_schedules(), ", "));
}

}  // namespace sccl::tools
