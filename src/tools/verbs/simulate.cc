// sccl simulate: the time of a schedule on a machine, and which data passes each link at which time.
#include "schedule/simulation/simulate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "compose/lowering/expand.h"
#include "schedule/json.h"
#include "schedule/lowering/prepare.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/cost.h"
#include "schedule/simulation/simulate_program.h"
#include "tools/input/byte_size.h"
#include "tools/input/candidates.h"
#include "tools/input/machine_option.h"
#include "tools/input/parse.h"
#include "tools/input/schedule_file.h"
#include "tools/pictures/gantt.h"
#include "tools/traces/foreseen.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

constexpr std::size_t kMostLinksPrinted = 24;
// A picture or timeline of more transfers has no use and takes gigabytes.
constexpr std::size_t kMostTransfers = 4000000;
constexpr int kMostSlots = 1 << 20;
constexpr double kMostGbytesPerS = 1e9;

struct Options {
  MachineOption machine;
  std::string collective;
  std::string bytes;
  std::string algorithm;
  std::string schedule_path;
  std::optional<std::string> slice;
  Call call;
  int slots = kSlots;
  int short_slots = kShortSlots;
  int network_slots = kShortSlots;
  double reduce_gbytes_per_s = 0;
  std::string cores_path;
  bool stepwise = false;
  bool timeline = false;
  std::string svg_path;
  std::string trace_path;
  std::string out_path;
  bool as_json = false;
};

void add_options(CLI::App& app, Options& options) {
  options.machine.add_to(app);
  app.add_option("--schedule", options.schedule_path, "simulate this file (JSON or MSCCL XML) instead of planning");
  app.add_option("--collective", options.collective, "allreduce, allgather, ...");
  app.add_option("--bytes", options.bytes, "buffer one rank (broadcast, scatter: the root) puts in, e.g. 64M")
      ->required();
  app.add_option("--root", options.call.root, "of a rooted collective");
  app.add_option("--algo", options.algorithm, "planner or kind (ring, trees, synth, ...); without it the fastest");
  app.add_option("--slice", options.slice,
                 "chunks are cut into slices of this size; 0: not at all; without it as sccl plan cuts them, and a "
                 "file's into 128K");
  app.add_option("--slots", options.slots, "slices under way on a connection; 0: no bound")
      ->check(CLI::Range(0, kMostSlots))
      ->capture_default_str();
  app.add_option("--short-slots", options.short_slots, "the same if no slice is longer than 32 KiB; 0: as many")
      ->check(CLI::Range(0, kMostSlots))
      ->capture_default_str();
  app.add_option("--network-slots", options.network_slots,
                 "the same on a connection between hosts; 0: as many as --slots")
      ->check(CLI::Range(0, kMostSlots))
      ->capture_default_str();
  app.add_option("--reduce-gbytes-per-s", options.reduce_gbytes_per_s, "rate at which a rank adds; 0: no time")
      ->check(CLI::Range(0.0, kMostGbytesPerS))
      ->capture_default_str();
  app.add_option(
      "--cores", options.cores_path,
      "the program on ranks that share these cores, by figures in a JSON file (bench/predict measures them); links "
      "play no part");
  app.add_flag("--stepwise", options.stepwise, "a barrier between steps, as in SCCL's model; no slices");
  app.add_flag("--timeline", options.timeline, "list every transfer in the JSON");
  app.add_option("--svg", options.svg_path, "draw what passes which link when into this file");
  app.add_option("--trace", options.trace_path,
                 "write the timeline as a trace for Chrome's or Perfetto's viewer into this file");
  app.add_option("--out", options.out_path, "write the schedule (JSON) into this file, for sccl export");
  app.add_flag("--json", options.as_json, "print JSON");
}

schedule::SimulationOptions simulation_options(const Options& options) {
  schedule::SimulationOptions result{.bytes = options.call.bytes,
                                     .slots = options.slots,
                                     .short_slots = options.short_slots,
                                     .network_slots = options.network_slots,
                                     .reduce_gbytes_per_s = options.reduce_gbytes_per_s};
  if (options.stepwise || options.slice == "0")
    result.slice_bytes = 0;
  else
    result.slice_bytes = options.slice ? static_cast<double>(parse_size(*options.slice)) : kSliceBytes;
  result.lane_bytes = options.stepwise ? 0 : schedule::kLaneBytes;
  result.progress = options.stepwise ? schedule::Progress::stepwise : schedule::Progress::dataflow;
  result.detail = schedule::Detail::totals;
  return result;
}

// The composite that serves the call on a cluster that only composites serve.
std::optional<LevelsCandidate> levels_of(const Options& options) {
  if (!options.schedule_path.empty()) return std::nullopt;
  if (!options.algorithm.empty()) check_algorithm_name(options.algorithm);  // planning takes seconds
  const topology::Topology machine = options.machine.machine();
  const double slice_bytes = simulation_options(options).slice_bytes;
  auto all = levels_candidates(machine, options.call, slice_bytes > 0 ? slice_bytes : kSliceBytes);
  for (LevelsCandidate& one : all)
    if (options.algorithm.empty() || portfolio::answers_to(one.plan.name(), options.algorithm)) return std::move(one);
  return std::nullopt;
}

// Prints the closed form, if a simulation link by link would take minutes.
void print_levels(const LevelsCandidate& one, const Options& options) {
  const compose::Composite& composite = *one.plan.composite;
  const compose::Cost& cost = one.plan.cost;
  const double network_us = cost.network_us_per_byte * options.call.bytes;
  const double hosts_us = cost.host_us_per_byte * options.call.bytes;
  if (options.as_json) {
    std::puts(nlohmann::json{{"topology", composite.topology->name},
                             {"ranks", composite.ranks()},
                             {"collective", info(composite.collective).name},
                             {"algo", one.plan.name()},
                             {"bytes", options.call.bytes},
                             {"time_us", one.time_us},
                             {"closed_form_us", one.closed_form_us},
                             {"network_busy_us", network_us},
                             {"hosts_busy_us", hosts_us},
                             {"slice_bytes", one.slice_bytes},
                             {"simulated", false}}
                  .dump()
                  .c_str());
    return;
  }
  std::printf("# %s of %s by %s on %s, %d ranks: by levels, in slices of %s\n",
              std::string(info(composite.collective).name).c_str(), size_text(options.call.bytes).c_str(),
              one.plan.name().c_str(), composite.topology->name.c_str(), composite.ranks(),
              size_text(one.slice_bytes).c_str());
  std::printf("closed form %12.2f us  (%.2f GB/s of the buffer)\n", one.closed_form_us,
              one.closed_form_us > 0 ? options.call.bytes / one.closed_form_us / 1e3 : 0);
  std::printf("network     %12.2f us  its busiest link\n", network_us);
  std::printf("hosts       %12.2f us  their busiest link\n", hosts_us);
  std::printf("latency     %12.2f us  of %d steps between hosts and %d on them\n",
              cost.between_hosts.time_us(0) + cost.on_host.time_us(0), cost.between_hosts.steps, cost.on_host.steps);
}

Planned planned(const Options& options) {
  if (const auto levels = levels_of(options)) return {compose::expand(*levels->plan.to_run()), levels->slice_bytes};
  const topology::Topology machine = options.machine.machine();
  if (!options.algorithm.empty()) return plan_by(options.algorithm, machine, options.call, simulation_options(options));
  const Candidate best = candidates(machine, options.call, simulation_options(options)).front();
  return {*best.schedule, best.slice_bytes};
}

schedule::Schedule read_schedule(const Options& options) {
  schedule::Schedule schedule = schedule_from_file(options.schedule_path);
  // A file's routes may be simulated on another machine.
  if (auto machine = options.machine.machine_if_given()) {
    schedule.topology = std::move(*machine);
    if (schedule.topology.ranks != schedule.ranks)
      fail(ErrorCode::invalid_argument, "{} is for {} ranks and topology '{}' has {}: give one of as many",
           options.schedule_path, schedule.ranks, schedule.topology.name, schedule.topology.ranks);
    schedule::check_fields(schedule);
    schedule.rounds = schedule::needed_rounds(schedule);
  }
  schedule::verify(schedule);
  return schedule;
}

// With slices as they were asked for, else as they were planned.
Planned to_simulate(const Options& options) {
  const double asked = simulation_options(options).slice_bytes;
  if (!options.schedule_path.empty()) return {read_schedule(options), asked};
  Planned result = planned(options);
  if (options.slice || options.stepwise) result.slice_bytes = asked;
  return result;
}

double figure(const nlohmann::json& json, const char* name, const std::string& path) {
  if (!json.is_object() || !json.contains(name) || !json.at(name).is_number())
    fail(ErrorCode::invalid_argument, "{}: the number '{}' of the cores' model is missing", path, name);
  return json.at(name).get<double>();
}

schedule::CoreModel core_model(const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(read_text(path), nullptr, false);
  const auto get = [&](const char* name) { return figure(json, name, path); };
  constexpr double kMostCores = 1 << 20;
  return {static_cast<int>(std::clamp(get("cores"), 0.0, kMostCores)),
          get("alpha_us"),
          get("op_us"),
          get("switch_us"),
          get("read_own_ns"),
          get("write_own_ns"),
          get("read_slot_ns"),
          get("write_slot_ns")};
}

// Simulates the executor of the host platform.
void run_on_cores(const Options& options) {
  const auto [schedule, slice_bytes] = to_simulate(options);
  const schedule::ProgramRun run{options.call.bytes, slice_bytes, options.slots};
  const schedule::CoreModel model = core_model(options.cores_path);
  const schedule::ProgramSimulation result =
      schedule::simulate_program(schedule, schedule::prepare(schedule, options.slots), model, run);
  if (options.as_json) {
    std::puts(nlohmann::json{{"ranks", schedule.ranks},
                             {"collective", info(schedule.collective).name},
                             {"algo", schedule.name},
                             {"bytes", options.call.bytes},
                             {"time_us", result.time_us},
                             {"operations", result.operations},
                             {"switches", result.switches}}
                  .dump()
                  .c_str());
    return;
  }
  std::printf("# %s of %s by %s, %d ranks on %d cores\n", std::string(info(schedule.collective).name).c_str(),
              size_text(options.call.bytes).c_str(), schedule.name.c_str(), schedule.ranks, model.cores);
  std::printf("predicted   %12.2f us  (%lld operations, %lld switches between ranks)\n", result.time_us,
              static_cast<long long>(result.operations), static_cast<long long>(result.switches));
}

struct Outcome {
  schedule::Schedule schedule;
  double slice_bytes = 0;  // 0: not cut
  schedule::Simulation simulation;
  schedule::SteppedCost stepped;
  double closed_form_us = 0;
};

void print_text(const Outcome& outcome, const Options& options) {
  const schedule::Schedule& schedule = outcome.schedule;
  const schedule::EdgeIndex edges(schedule.topology);
  std::printf("# %s of %s by %s on %s, %d ranks: %d steps, %d rounds, C = %d\n",
              std::string(info(schedule.collective).name).c_str(), size_text(options.call.bytes).c_str(),
              schedule.name.c_str(), schedule.topology.name.c_str(), schedule.ranks, outcome.stepped.steps,
              outcome.stepped.rounds, outcome.stepped.chunks_per_rank);
  std::printf("predicted   %12.2f us  (%.2f GB/s of the buffer)\n", outcome.simulation.time_us,
              outcome.simulation.time_us > 0 ? options.call.bytes / outcome.simulation.time_us / 1e3 : 0);
  std::printf("closed form %12.2f us  (a barrier between steps, no slices)\n", outcome.closed_form_us);
  std::vector<schedule::EdgeUse> uses = outcome.simulation.edges;
  std::stable_sort(uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.busy_us > b.busy_us; });
  std::printf("# %9s %6s %12s %12s %6s\n", "link", "lanes", "bytes", "busy us", "busy");
  for (std::size_t i = 0; i < std::min(uses.size(), kMostLinksPrinted); ++i) {
    const schedule::EdgeInfo& edge = edges[uses[i].edge];
    std::printf("%5d->%-5d %6d %12.0f %12.2f %5.1f%%\n", edge.ends.first, edge.ends.second, edge.lanes, uses[i].bytes,
                uses[i].busy_us / edge.lanes, 100 * uses[i].busy_us / edge.lanes / outcome.simulation.time_us);
  }
  if (uses.size() > kMostLinksPrinted) std::printf("# and %zu links less busy\n", uses.size() - kMostLinksPrinted);
}

nlohmann::json timeline_json(const Outcome& outcome, const schedule::EdgeIndex& edges) {
  nlohmann::json list = nlohmann::json::array();
  for (const schedule::Transfer& one : outcome.simulation.transfers) {
    const schedule::Send& send = outcome.schedule.sends[static_cast<std::size_t>(one.send)];
    list.push_back({{"src", edges[one.edge].ends.first},
                    {"dst", edges[one.edge].ends.second},
                    {"lane", one.lane},
                    {"chunk", send.chunk},
                    {"step", send.step},
                    {"slice", one.slice},
                    {"begin_us", one.begin_us},
                    {"end_us", one.end_us}});
  }
  return list;
}

void print_json(const Outcome& outcome, const Options& options) {
  const schedule::Schedule& schedule = outcome.schedule;
  const schedule::EdgeIndex edges(schedule.topology);
  nlohmann::json links = nlohmann::json::array();
  for (const schedule::EdgeUse& use : outcome.simulation.edges)
    links.push_back({{"src", edges[use.edge].ends.first},
                     {"dst", edges[use.edge].ends.second},
                     {"lanes", edges[use.edge].lanes},
                     {"bytes", use.bytes},
                     {"busy_us", use.busy_us},
                     {"begin_us", use.begin_us},
                     {"end_us", use.end_us}});
  nlohmann::json result{{"topology", schedule.topology.name},
                        {"ranks", schedule.ranks},
                        {"collective", info(schedule.collective).name},
                        {"algo", schedule.name},
                        {"bytes", options.call.bytes},
                        {"time_us", outcome.simulation.time_us},
                        {"closed_form_us", outcome.closed_form_us},
                        {"steps", outcome.stepped.steps},
                        {"rounds", outcome.stepped.rounds},
                        {"chunks_per_rank", outcome.stepped.chunks_per_rank},
                        {"slices", outcome.simulation.slices},
                        {"slice_bytes", outcome.slice_bytes},
                        {"links", links}};
  if (options.timeline) result["timeline"] = timeline_json(outcome, edges);
  std::puts(result.dump().c_str());
}

std::string title(const Outcome& outcome, const Options& options) {
  return fmt::format("{} of {} by {} on {}: {:.5g} us", info(outcome.schedule.collective).call_name,
                     size_text(options.call.bytes), outcome.schedule.name, outcome.schedule.topology.name,
                     outcome.simulation.time_us);
}

bool draws_transfers(const Options& options) {
  return options.timeline || !options.svg_path.empty() || !options.trace_path.empty();
}

void run_simulation(const Options& options) {
  constexpr std::size_t kMostSimulatedSends = std::size_t{1} << 21;  // some seconds
  constexpr std::size_t kMostDrawnSends = std::size_t{1} << 19;
  const bool drawn = !options.out_path.empty() || draws_transfers(options);
  const auto levels = levels_of(options);
  if (levels && compose::about_sends(*levels->plan.composite) > (drawn ? kMostDrawnSends : kMostSimulatedSends)) {
    if (drawn)
      fail(ErrorCode::invalid_argument,
           "'{}' on {} ranks is too large for a file, picture or timeline of its sends: ask for fewer hosts",
           levels->plan.name(), levels->plan.composite->ranks());
    return print_levels(*levels, options);
  }
  Outcome outcome;
  Planned plan = to_simulate(options);
  outcome.schedule = std::move(plan.schedule);
  outcome.slice_bytes = plan.slice_bytes;
  schedule::SimulationOptions simulated = simulation_options(options);
  simulated.slice_bytes = outcome.slice_bytes;
  if (draws_transfers(options)) {
    const auto slices = static_cast<std::size_t>(schedule::simulate(outcome.schedule, simulated).slices);
    if (slices > kMostTransfers)
      fail(ErrorCode::invalid_argument,
           "{} slices are too many for a timeline or picture: use a larger --slice or fewer bytes", slices);
    simulated.detail = schedule::Detail::transfers;
  }
  outcome.simulation = schedule::simulate(outcome.schedule, simulated);
  outcome.stepped = schedule::stepped_cost(outcome.schedule);
  outcome.closed_form_us = schedule::linear_cost(outcome.schedule).time_us(options.call.bytes);
  if (!options.out_path.empty()) write_text(options.out_path, schedule::to_json(outcome.schedule).dump() + "\n");
  if (!options.svg_path.empty())
    write_text(options.svg_path, gantt_svg(outcome.schedule, outcome.simulation, title(outcome, options)));
  if (!options.trace_path.empty())
    write_text(options.trace_path, foreseen_trace(outcome.schedule, outcome.simulation, title(outcome, options)));
  options.as_json ? print_json(outcome, options) : print_text(outcome, options);
}

}  // namespace

int simulate(int argc, char** argv) {
  CLI::App app("Foresees the time of a collective on a machine, link by link.", "sccl simulate");
  Options options;
  add_options(app, options);
  try {
    parse(app, argc, argv);
    if (options.schedule_path.empty()) {
      if (!options.machine.given()) throw CLI::RequiredError("--topo or --schedule");
      if (options.collective.empty()) throw CLI::RequiredError("--collective");
      options.call.collective = parse_collective_name(options.collective);
    }
    options.call.bytes = static_cast<double>(parse_size(options.bytes));
    simulation_options(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  options.cores_path.empty() ? run_simulation(options) : run_on_cores(options);
  return kOk;
}

}  // namespace sccl::tools
