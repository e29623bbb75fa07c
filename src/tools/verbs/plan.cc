// sccl plan: the schedules that could serve a call, with predicted times, and the one that would be chosen.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tools/input/byte_size.h"
#include "tools/input/candidates.h"
#include "tools/input/machine_option.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

int rounds_of(const schedule::Schedule& schedule) {
  return std::accumulate(schedule.rounds.begin(), schedule.rounds.end(), 0);
}

void print_table(const std::vector<Candidate>& all, const topology::Topology& machine, const Call& call) {
  std::printf("# %s of %s on %s, %d ranks\n", std::string(info(call.collective).name).c_str(),
              size_text(call.bytes).c_str(), machine.name.c_str(), machine.ranks);
  std::printf("# %-16s %8s %6s %6s %12s %14s\n", "algorithm", "chunks", "steps", "rounds", "predicted us",
              "closed form us");
  for (const Candidate& one : all)
    std::printf("%c %-16s %8d %6d %6d %12.2f %14.2f\n", &one == &all.front() ? '*' : ' ', one.algorithm.c_str(),
                one.schedule.chunks, one.schedule.steps, rounds_of(one.schedule), one.time_us, one.closed_form_us);
  std::printf("# * is chosen: the least predicted time\n");
}

void print_json(const std::vector<Candidate>& all, const topology::Topology& machine, const Call& call) {
  nlohmann::json list = nlohmann::json::array();
  for (const Candidate& one : all)
    list.push_back({{"algo", one.algorithm},
                    {"chunks", one.schedule.chunks},
                    {"chunks_per_rank", one.schedule.chunks_per_rank},
                    {"steps", one.schedule.steps},
                    {"rounds", rounds_of(one.schedule)},
                    {"time_us", one.time_us},
                    {"closed_form_us", one.closed_form_us}});
  std::puts(nlohmann::json{{"topology", machine.name},
                           {"ranks", machine.ranks},
                           {"collective", info(call.collective).name},
                           {"bytes", call.bytes},
                           {"candidates", list},
                           {"chosen", all.front().algorithm}}
                .dump()
                .c_str());
}

}  // namespace

int plan(int argc, char** argv) {
  CLI::App app("Candidate schedules for a call on a machine, fastest first by the simulator.", "sccl plan");
  MachineOption machine_option;
  std::string collective;
  std::string bytes;
  Call call;
  bool as_json = false;
  machine_option.add_to(app);
  app.add_option("--collective", collective, "allreduce, allgather, ...")->required();
  app.add_option("--bytes", bytes, "buffer one rank (broadcast, scatter: the root) puts in, e.g. 64M")->required();
  app.add_option("--root", call.root, "of a rooted collective");
  app.add_flag("--json", as_json, "print JSON");
  try {
    app.parse(argc, argv);
    if (!machine_option.given()) throw CLI::RequiredError("--topo");
    call.collective = parse_collective_name(collective);
    call.bytes = static_cast<double>(parse_size(bytes));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  const topology::Topology machine = machine_option.machine();
  schedule::SimulationOptions options{.bytes = call.bytes, .slice_bytes = kSliceBytes, .slots = kSlots};
  options.detail = schedule::Detail::totals;
  const std::vector<Candidate> all = candidates(machine, call, options);
  as_json ? print_json(all, machine, call) : print_table(all, machine, call);
  return kOk;
}

}  // namespace sccl::tools
