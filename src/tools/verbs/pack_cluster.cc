#include "tools/verbs/pack_cluster.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "schedule/json.h"
#include "schedule/lowering/prepare.h"
#include "tools/input/candidates.h"
#include "tools/input/schedule_file.h"
#include "tools/verbs/packed_tree.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::tools {
namespace {

using nlohmann::json;
using treegen::ClusterPacking;
using treegen::LikeHosts;

bool is_listed(const LikeHosts& hosts) { return hosts.hosts() * hosts.devices() <= kMostListedRanks; }

json trees_of(const LikeHosts& hosts, const ClusterPacking& packing) {
  json trees = json::array();
  if (is_listed(hosts)) {
    for (const auto& [route, weight] : all_routes(hosts, packing)) trees.push_back(tree_of(route, weight));
    return trees;
  }
  for (const treegen::TreeOrbit& orbit : packing.orbits) {
    trees.push_back(tree_of(orbit.route, orbit.weight));
    trees.back()["multiplicity"] = orbit.multiplicity;
  }
  return trees;
}

std::size_t number_of_trees(const ClusterPacking& packing) {
  std::size_t number = 0;
  for (const treegen::TreeOrbit& orbit : packing.orbits) number += static_cast<std::size_t>(orbit.multiplicity);
  return number;
}

// The ranks of the first host on the cut's side that lacks the network, and whether they send the data that crosses.
struct Cut {
  std::vector<Rank> ranks;
  bool leaves = true;
};

Cut cut_of(const LikeHosts& hosts, const std::vector<topology::Node>& set) {
  std::vector<bool> inside(static_cast<std::size_t>(hosts.one.nodes()), false);
  for (const topology::Node node : set) inside[static_cast<std::size_t>(node)] = true;
  Cut cut;
  cut.leaves = !inside[static_cast<std::size_t>(hosts.outside())];
  for (int position = 0; position < hosts.devices(); ++position)
    if (inside[static_cast<std::size_t>(position)] == cut.leaves)
      cut.ranks.push_back(hosts.ranks.front()[static_cast<std::size_t>(position)]);
  return cut;
}

// "8 lanes enter {0,1,2,3}, 120 needed for each"
std::string text_of_bound(const LikeHosts& hosts, const ClusterPacking& packing) {
  const bool inward = packing.collective == Collective::reduce || packing.collective == Collective::reducescatter;
  std::string sets;
  bool leaves = true;
  for (const auto& set : packing.bound.sets) {
    const Cut cut = cut_of(hosts, set);
    sets += fmt::format(" {{{}}}", fmt::join(cut.ranks, ","));
    leaves = cut.leaves != inward;
  }
  const bool all = packing.collective == Collective::allreduce;
  return fmt::format("{} units {}{}{}, {} needed for each unit of rate", packing.bound.crossing,
                     leaves ? "leave" : "enter", sets, all ? " of all hosts" : "", packing.bound.crossings_per_unit);
}

json answer_of(const LikeHosts& hosts, const ClusterPacking& packing, double seconds) {
  json sets = json::array();
  for (const auto& set : packing.bound.sets) {
    const Cut cut = cut_of(hosts, set);
    sets.push_back({{"ranks", cut.ranks}, {"outside", !cut.leaves}});
  }
  return {{"collective", info(packing.collective).name},
          {"root", packing.root},
          {"rate", to_double(packing.rate)},
          {"rate_exact", to_text(packing.rate)},
          {"optimum", to_double(packing.optimum)},
          {"optimum_exact", to_text(packing.optimum)},
          {"proof", packing.proof == treegen::Proof::cut ? "cut" : "none"},
          {"cut",
           {{"host", sets},
            {"crossing", packing.bound.crossing},
            {"crossings_per_unit", packing.bound.crossings_per_unit},
            {"bound", to_double(packing.bound.rate)}}},
          {"hosts", packing.hosts},
          {"devices_per_host", packing.devices},
          {"trees", trees_of(hosts, packing)},
          {"number_of_trees", number_of_trees(packing)},
          {"depth", packing.depth()},
          {"candidates", packing.candidates},
          {"seconds", seconds}};
}

void print(const LikeHosts& hosts, const ClusterPacking& packing, double seconds) {
  std::printf("rate    %s lanes (%.4f), optimum %s, proof: %s\n", to_text(packing.rate).c_str(),
              to_double(packing.rate), to_text(packing.optimum).c_str(),
              packing.proof == treegen::Proof::cut ? "cut" : "none");
  std::printf("bound   %s lanes: %s\n", to_text(packing.bound.rate).c_str(), text_of_bound(hosts, packing).c_str());
  std::printf("trees   %zu of depth %d, %d candidates of one host, %.3f s\n", number_of_trees(packing), packing.depth(),
              packing.candidates, seconds);
  const int ranks = hosts.hosts() * hosts.devices();
  if (!is_listed(hosts)) {
    std::printf("        those of host 0, each turned by %d hosts of %d devices; --json lists their links\n",
                packing.orbits.front().multiplicity, packing.devices);
    for (const treegen::TreeOrbit& orbit : packing.orbits)
      std::printf("  %-8s root %d: depth %d, %d links\n", to_text(orbit.weight).c_str(), orbit.route.root(),
                  orbit.route.depth(), ranks - 1);
    return;
  }
  for (const auto& [route, weight] : all_routes(hosts, packing)) print_tree(route, weight);
}

void write_schedule(const topology::Topology& topology, const LikeHosts& hosts, const ClusterPacking& packing,
                    const std::string& path) {
  if (!is_listed(hosts))
    fail(
        ErrorCode::invalid_argument,
        "the schedule of {} trees over {} ranks would have {} sends: write one of at most {} ranks, or leave out --out",
        number_of_trees(packing), topology.ranks,
        number_of_trees(packing) * static_cast<std::size_t>(topology.ranks - 1), kMostListedRanks);
  treegen::Packing flat;
  flat.collective = packing.collective;
  flat.root = packing.root;
  flat.rate = packing.rate;
  flat.optimum = packing.optimum;
  flat.routes = all_routes(hosts, packing);
  const schedule::Schedule schedule = treegen::to_schedule(topology, flat);
  schedule::prepare(schedule, kSlots);
  write_text(path, schedule::to_json(schedule).dump() + "\n");
}

}  // namespace

bool pack_cluster(const topology::Topology& topology, const LikeHosts& hosts, const PackClusterArguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const ClusterPacking packing = treegen::pack_cluster(hosts, arguments.collective, arguments.root, arguments.options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (arguments.only_proved && packing.proof != treegen::Proof::cut) return false;
  if (!arguments.out.empty()) write_schedule(topology, hosts, packing, arguments.out);
  if (arguments.as_json)
    std::puts(answer_of(hosts, packing, seconds).dump().c_str());
  else
    print(hosts, packing, seconds);
  return true;
}

}  // namespace sccl::tools
