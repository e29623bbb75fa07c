// sccl plan: the schedules that could serve a call, with predicted times, and the schedule that would be chosen.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "compose/bounds/bound.h"
#include "schedule/simulation/cost.h"
#include "tools/input/byte_size.h"
#include "tools/input/candidates.h"
#include "tools/input/machine_option.h"
#include "tools/input/parse.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

// One line of the output.
struct Row {
  std::string algorithm;
  int chunks = 0;
  int chunks_per_rank = 0;
  int steps = 0;
  int rounds = 0;  // 0: a composite, whose steps overlap
  double time_us = 0;
  double closed_form_us = 0;
  double slice_bytes = 0;  // 0: the usual slices
};

std::vector<Row> rows_of(const topology::Topology& machine, const Call& call) {
  std::vector<Row> rows;
  const auto steps_of = [](const compose::Cost& cost) { return cost.on_host.steps + cost.between_hosts.steps; };
  for (const LevelsCandidate& one : levels_candidates(machine, call, kSliceBytes)) {
    const compose::Composite& composite = *one.plan.composite;
    const int chunks = schedule::chunk_count(composite.collective, composite.ranks(), composite.chunks_per_rank);
    rows.push_back({one.plan.name(), chunks, composite.chunks_per_rank, steps_of(one.plan.cost), 0, one.time_us,
                    one.closed_form_us, one.slice_bytes});
  }
  if (!rows.empty()) return rows;
  const portfolio::Pipeline pipeline{kSliceBytes};
  for (const Candidate& one : candidates(machine, call, pipeline.simulated(call.bytes))) {
    Row row{one.algorithm,
            one.schedule.chunks(),
            one.schedule.chunks_per_rank(),
            0,
            0,
            one.time_us,
            one.closed_form_us,
            one.slice_bytes == kSliceBytes ? 0 : one.slice_bytes};
    row.steps = one.cost != nullptr ? steps_of(*one.cost) : one.schedule->steps;
    if (one.cost == nullptr) row.rounds = std::accumulate(one.schedule->rounds.begin(), one.schedule->rounds.end(), 0);
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_bounds(const std::vector<compose::Bound>& bounds) {
  for (const compose::Bound& one : bounds) std::printf("# bound %12.2f us  %s\n", one.us, one.why.c_str());
}

double least_us(const std::vector<compose::Bound>& bounds) { return bounds.empty() ? 0 : bounds.front().us; }

void print_table(const std::vector<Row>& rows, const topology::Topology& machine, const Call& call,
                 const std::vector<compose::Bound>& bounds) {
  std::printf("# %s of %s on %s, %d ranks\n", std::string(info(call.collective).name).c_str(),
              size_text(call.bytes).c_str(), machine.name.c_str(), machine.ranks);
  print_bounds(bounds);
  const double least = least_us(bounds);
  std::printf("# %-24s %9s %6s %6s %12s %14s%s\n", "algorithm", "chunks", "steps", "rounds", "predicted us",
              "closed form us", least > 0 ? "    bound us  x bound" : "");
  for (const Row& one : rows) {
    std::printf("%c %-24s %9d %6d %6s %12.2f %14.2f", &one == &rows.front() ? '*' : ' ', one.algorithm.c_str(),
                one.chunks, one.steps, one.rounds > 0 ? std::to_string(one.rounds).c_str() : "-", one.time_us,
                one.closed_form_us);
    if (least > 0) std::printf(" %11.2f %8.3f", least, one.time_us / least);
    std::printf("\n");
  }
  std::printf("# * is chosen: the least predicted time\n");
}

void print_json(const std::vector<Row>& rows, const topology::Topology& machine, const Call& call,
                const std::vector<compose::Bound>& bounds) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& one : rows) {
    list.push_back({{"algo", one.algorithm},
                    {"chunks", one.chunks},
                    {"chunks_per_rank", one.chunks_per_rank},
                    {"steps", one.steps},
                    {"rounds", one.rounds},
                    {"time_us", one.time_us},
                    {"closed_form_us", one.closed_form_us}});
    if (one.slice_bytes > 0) list.back()["slice_bytes"] = one.slice_bytes;
    if (!bounds.empty()) list.back()["bound_us"] = least_us(bounds);
  }
  nlohmann::json result{
      {"topology", machine.name}, {"ranks", machine.ranks}, {"collective", info(call.collective).name},
      {"bytes", call.bytes},      {"candidates", list},     {"chosen", rows.front().algorithm}};
  for (const compose::Bound& one : bounds) result["bounds"].push_back({{"us", one.us}, {"why", one.why}});
  std::puts(result.dump().c_str());
}

}  // namespace

int plan(int argc, char** argv) {
  CLI::App app("Candidate schedules for a call on a machine, fastest first by the simulator.", "sccl plan");
  MachineOption machine_option;
  std::string collective;
  std::string bytes;
  Call call;
  bool as_json = false;
  bool with_bound = false;
  machine_option.add_to(app);
  app.add_option("--collective", collective, "allreduce, allgather, ...")->required();
  app.add_option("--bytes", bytes, "buffer one rank (broadcast, scatter: the root) puts in, e.g. 64M")->required();
  app.add_option("--root", call.root, "of a rooted collective");
  app.add_flag("--bound", with_bound, "print what no schedule can beat: cuts, NICs, latency");
  app.add_flag("--json", as_json, "print JSON");
  try {
    parse(app, argc, argv);
    if (!machine_option.given()) throw CLI::RequiredError("--topo");
    call.collective = parse_collective_name(collective);
    call.bytes = static_cast<double>(parse_size(bytes));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  const topology::Topology machine = machine_option.machine();
  const std::vector<Row> rows = rows_of(machine, call);
  std::vector<compose::Bound> bounds;
  if (with_bound)
    bounds = compose::bounds(machine, topology::cluster_of(machine), call.collective, call.root, call.bytes);
  as_json ? print_json(rows, machine, call, bounds) : print_table(rows, machine, call, bounds);
  return kOk;
}

}  // namespace sccl::tools
