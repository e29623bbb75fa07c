// sccl pack: the spanning trees that reach the best rate of a collective on given links.
#include "treegen/packing/pack.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "portfolio/flat/tree_candidates.h"
#include "schedule/json.h"
#include "schedule/lowering/prepare.h"
#include "tools/input/byte_size.h"
#include "tools/input/candidates.h"
#include "tools/input/parse.h"
#include "tools/input/schedule_file.h"
#include "tools/input/topology_argument.h"
#include "tools/verbs/pack_cluster.h"
#include "tools/verbs/packed_tree.h"
#include "tools/verbs/verbs.h"
#include "treegen/graph/frames.h"
#include "treegen/packing/fewest.h"
#include "treegen/packing/mwu.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::tools {
namespace {

using nlohmann::json;
using treegen::Packing;

struct Arguments {
  std::string topology;
  std::vector<int> devices;
  std::string collective = "broadcast";
  int root = 0;
  std::string out;
  std::string capacity = "lanes";
  double epsilon = treegen::MwuOptions{}.epsilon;
  int frames = 1;
  std::string bytes;
  bool unit_trees = false;
  bool as_json = false;
};

json trees_of(const Packing& packing) {
  json trees = json::array();
  for (const auto& [route, weight] : packing.routes) trees.push_back(tree_of(route, weight));
  return trees;
}

std::string_view text(treegen::Proof proof) {
  switch (proof) {
    case treegen::Proof::cut:
      return "cut";
    case treegen::Proof::linear_program:
      return "linear program";
    case treegen::Proof::none:
      break;
  }
  return "none";
}

// The results of Blink's own steps, for comparison; out-trees only.
json blink_steps(const treegen::Links& links, const Packing& packing, double epsilon) {
  const auto approximate = treegen::pack_by_weights(links, packing.root, {epsilon});
  const auto selected = treegen::select_candidates(links, approximate.trees, approximate.rate, 0.05);
  return {{"epsilon", approximate.epsilon},
          {"iterations", approximate.iterations},
          {"rate", approximate.rate},
          {"bound", approximate.bound},
          {"trees", approximate.trees.size()},
          {"selected_rate", selected.rate / to_double(links.units_per_lane())},
          {"selected_trees", selected.trees.size()}};
}

json answer_of(const Packing& packing, double seconds) {
  return {{"collective", info(packing.collective).name},
          {"root", packing.root},
          {"rate", to_double(packing.rate)},
          {"rate_exact", to_text(packing.rate)},
          {"optimum", to_double(packing.optimum)},
          {"optimum_exact", to_text(packing.optimum)},
          {"proof", text(packing.proof)},
          {"cut",
           {{"sets", packing.bound.sets},
            {"crossing", packing.bound.crossing},
            {"crossings_per_unit", packing.bound.crossings_per_unit},
            {"bound", to_double(packing.bound.rate)}}},
          {"trees", trees_of(packing)},
          {"depth", packing.depth()},
          {"least_trees", packing.least_trees},
          {"fewest_proved", packing.fewest_proved},
          {"least_depth_proved", packing.least_depth_proved},
          {"candidates", packing.candidates},
          {"seconds", seconds}};
}

void print_sets(const Packing& packing) {
  const bool inward = packing.collective == Collective::reduce || packing.collective == Collective::reducescatter;
  std::string sets;
  for (const auto& set : packing.bound.sets) sets += fmt::format(" {{{}}}", fmt::join(set, ","));
  std::printf("bound   %s lanes: %lld lanes %s%s, %d needed for each\n", to_text(packing.bound.rate).c_str(),
              static_cast<long long>(packing.bound.crossing), inward ? "enter" : "leave", sets.c_str(),
              packing.bound.crossings_per_unit);
}

void print(const Packing& packing, double seconds) {
  std::printf("rate    %s lanes (%.4f), optimum %s, proof: %s\n", to_text(packing.rate).c_str(),
              to_double(packing.rate), to_text(packing.optimum).c_str(), std::string(text(packing.proof)).c_str());
  print_sets(packing);
  std::printf("trees   %zu of depth %d%s, %d candidates, %.3f s\n", packing.routes.size(), packing.depth(),
              packing.fewest_proved ? " (fewest, proved)" : "", packing.candidates, seconds);
  for (const auto& [route, weight] : packing.routes) print_tree(route, weight);
}

Collective collective_of(const std::string& name) {
  const auto collective = collective_from_name(name);
  if (!collective)
    fail(ErrorCode::invalid_argument,
         "unknown collective '{}': use broadcast, reduce, allreduce, allgather or reducescatter", name);
  return *collective;
}

treegen::PackOptions options_of(const Arguments& arguments) {
  treegen::PackOptions options;
  if (arguments.capacity == "bandwidth") options.capacity_unit = treegen::CapacityUnit::gbytes_per_s;
  if (arguments.unit_trees) options.weights = treegen::TreeWeights::unit;
  return options;
}

schedule::Schedule plain_schedule(const topology::Topology& topology, const Packing& packing, int frames) {
  return treegen::in_frames(treegen::to_schedule(topology, packing), frames);
}

void write_schedule(const schedule::Schedule& schedule, const std::string& path) {
  schedule::prepare(schedule, kSlots);
  write_text(path, schedule::to_json(schedule).dump() + "\n");
}

// The ways to send over trees, with the times predicted for `bytes`, fastest first.
std::vector<Candidate> ways(const topology::Topology& topology, const Arguments& arguments, double bytes) {
  std::vector<portfolio::Candidate> all;
  portfolio::add_trees(all, topology, collective_of(arguments.collective), arguments.root);
  schedule::SimulationOptions options{.bytes = bytes,
                                      .slice_bytes = kSliceBytes,
                                      .slots = kSlots,
                                      .short_slots = kShortSlots,
                                      .network_slots = kShortSlots};
  options.lane_bytes = schedule::kLaneBytes;
  options.detail = schedule::Detail::totals;
  const auto predictions = portfolio::predict(all, options);
  require_predictions(predictions, topology);
  std::vector<Candidate> result;
  for (const portfolio::Prediction& one : predictions)
    result.push_back({all[one.candidate].name, nullptr, std::move(all[one.candidate].schedule), one.time_us, 0});
  return result;
}

void print_ways(const std::vector<Candidate>& found, double bytes) {
  std::printf("sends   %s, predicted:\n", size_text(bytes).c_str());
  for (const Candidate& one : found)
    std::printf("  %-16s %12.2f us  %d chunks\n", one.algorithm.c_str(), one.time_us, one.schedule.chunks());
}

json list_of(const std::vector<Candidate>& found) {
  json list = json::array();
  for (const Candidate& one : found)
    list.push_back({{"algo", one.algorithm}, {"time_us", one.time_us}, {"chunks", one.schedule.chunks()}});
  return list;
}

// Up to this number of ranks packing all links at once takes less than a second, and its trees are the fewest.
constexpr int kMostRanksAtOnce = 16;
// Up to this number it takes a few seconds, which are spent where symmetry does not reach the bound.
constexpr int kMostRanksInSeconds = 32;

// Whether the hosts of a large cluster are alike, so that one of them tells the trees of all.
bool run_by_symmetry(const topology::Topology& topology, const Arguments& arguments,
                     const treegen::PackOptions& options) {
  const bool for_machines = arguments.unit_trees || arguments.frames > 1 || !arguments.bytes.empty();
  if (topology.ranks <= (for_machines ? kMostRanksInSeconds : kMostRanksAtOnce)) return false;
  std::string why;
  const auto hosts = treegen::like_hosts(topology, why);
  if (!hosts) return false;
  if (for_machines)
    fail(
        ErrorCode::invalid_argument,
        "{} ranks on {} hosts alike: --unit-trees, --frames and --bytes serve up to {} ranks; sccl plan foresees times "
        "on clusters",
        topology.ranks, hosts->hosts(), kMostRanksInSeconds);
  const Collective collective = collective_of(arguments.collective);
  if (info(collective).rooted && (arguments.root < 0 || arguments.root >= topology.ranks))
    fail(ErrorCode::invalid_argument, "root {} is not one of the ranks 0..{} of topology '{}'", arguments.root,
         topology.ranks - 1, topology.name);
  const bool at_once = topology.ranks <= kMostRanksInSeconds;
  const bool shares = !topology.shared.empty();
  if (at_once && shares && info(collective).rooted) return false;
  // For ReduceScatter in sets that links share, exact weights of all links at once leave 64 bits.
  const bool only_proved = at_once && !(shares && collective == Collective::reducescatter);
  return pack_cluster(topology, *hosts,
                      {collective, arguments.root, options, arguments.out, arguments.as_json, only_proved});
}

void run_pack(const Arguments& arguments) {
  const auto topology = topology_argument(arguments.topology, arguments.devices);
  const auto options = options_of(arguments);
  if (run_by_symmetry(topology, arguments, options)) return;
  const double bytes = arguments.bytes.empty() ? 0 : static_cast<double>(parse_size(arguments.bytes));
  const auto begin = std::chrono::steady_clock::now();
  const Packing packing = treegen::pack(topology, collective_of(arguments.collective), arguments.root, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::vector<Candidate> found;
  if (bytes > 0) found = ways(topology, arguments, bytes);
  if (!arguments.out.empty())
    write_schedule(found.empty() ? plain_schedule(topology, packing, arguments.frames) : *found.front().schedule,
                   arguments.out);
  if (!arguments.as_json) {
    print(packing, seconds);
    if (!found.empty()) print_ways(found, bytes);
    return;
  }
  json answer = answer_of(packing, seconds);
  if (!found.empty()) answer["schedules"] = list_of(found);
  // Blink's own steps take minutes on a cluster.
  if (packing.collective == Collective::broadcast && topology.ranks <= kMostRanksAtOnce)
    answer["blink"] = blink_steps(treegen::Links(topology, options.capacity_unit), packing, arguments.epsilon);
  std::puts(answer.dump().c_str());
}

}  // namespace

int pack(int argc, char** argv) {
  CLI::App app("Packs spanning trees into the links of a topology: the best rate, proved, with the fewest trees.",
               "sccl pack");
  Arguments arguments;
  app.add_option("--topo", arguments.topology, "preset or JSON file")->required();
  app.add_option("--devices", arguments.devices, "keep only these devices")->delimiter(',');
  app.add_option("--collective", arguments.collective, "broadcast, reduce, allreduce, allgather, reducescatter");
  app.add_option("--root", arguments.root, "of broadcast and reduce");
  app.add_option("--out", arguments.out, "write the schedule (JSON), verified");
  auto* frames = app.add_option("--frames", arguments.frames, "cut the data of the schedule into frames one step apart")
                     ->check(CLI::Range(1, 4096));
  app.add_option("--bytes", arguments.bytes,
                 "foresee the ways to send so much over trees (frames, rings, three phases, links of different speed); "
                 "--out is the fastest")
      ->excludes(frames);
  app.add_option("--capacity", arguments.capacity, "what links are worth: their lanes or their bandwidth")
      ->check(CLI::IsMember({"lanes", "bandwidth"}));
  app.add_option("--epsilon", arguments.epsilon, "of the multiplicative weights reported for broadcast (--json)");
  app.add_flag("--unit-trees", arguments.unit_trees, "every tree has the weight of one lane");
  app.add_flag("--json", arguments.as_json, "print JSON");
  try {
    parse(app, argc, argv);
    if (app.count("--bytes") > 0) parse_size(arguments.bytes);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  run_pack(arguments);
  return kOk;
}

}  // namespace sccl::tools
