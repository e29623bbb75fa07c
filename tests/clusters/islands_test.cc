// Composites whose hosts pass data on as islands.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "compose/lowering/expand.h"
#include "portfolio/clusters/cluster_planner.h"
#include "schedule/proof/verify.h"
#include "simulation_options.h"
#include "topology/presets.h"

using namespace sccl;

namespace {

constexpr double kMiB = 1 << 20;
constexpr double kSlice = 128 * 1024;

bool of_islands(const portfolio::CompositeCandidate& one) { return one.composite->name.starts_with("levels/islands-"); }

}  // namespace

TEST_CASE("composites of islands are right, and run on all links of the hosts") {
  const topology::Topology machine = topology::preset("3*pcie8");
  portfolio::ClusterPlanner planner(machine);
  for (const Collective collective : {Collective::allgather, Collective::reducescatter, Collective::allreduce,
                                      Collective::broadcast, Collective::reduce}) {
    std::map<std::size_t, int> checked;  // by sends: forms of equally many differ in steps
    int found = 0;
    for (const auto& one : planner.candidates(collective, 5)) {
      if (!of_islands(one)) continue;
      ++found;
      const schedule::Schedule flat = compose::expand(*one.composite);
      if (++checked[flat.sends.size()] > 2) continue;
      CHECK(flat.topology == machine);
      schedule::verify(flat);
    }
    INFO(info(collective).name);
    CHECK(found > 0);
  }
}

TEST_CASE("blocks never pass between islands of one host, and what passes is the same for all hosts") {
  const topology::Topology machine = topology::preset("4*pcie8");
  const topology::Cluster hosts = topology::cluster_of(machine);
  portfolio::ClusterPlanner planner(machine);
  for (const Collective collective : {Collective::allgather, Collective::reducescatter})
    for (const auto& one : planner.candidates(collective, 0)) {
      if (!of_islands(one)) continue;
      for (const schedule::Send& send : compose::expand(*one.composite).sends) {
        const auto from = static_cast<std::size_t>(send.src);
        const auto to = static_cast<std::size_t>(send.dst);
        const bool crosses = hosts.host_of[from] == hosts.host_of[to] && send.src / 4 != send.dst / 4;
        CHECK_FALSE(crosses);
      }
    }
}

TEST_CASE("long data that all ranks get goes by islands where these are faster") {
  for (const char* name : {"5*pcie8", "8*pcie8"}) {
    const topology::Topology machine = topology::preset(name);
    portfolio::ClusterPlanner planner(machine);
    for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
      INFO(info(collective).name << " on " << name);
      const auto all = planner.candidates(collective, 0);
      const auto order = portfolio::ranked(all, sccl_test::moved_in_lanes(64 * kMiB, kSlice));
      const auto whole = std::ranges::find_if(order, [&](const auto& one) { return !of_islands(all[one.candidate]); });
      REQUIRE(whole != order.end());
      REQUIRE(of_islands(all[order.front().candidate]));
      CHECK(order.front().time_us < 0.98 * whole->time_us);
    }
  }
}

TEST_CASE("blocks that are for one rank each go between whole hosts") {
  portfolio::ClusterPlanner planner(topology::preset("3*pcie8"));
  for (const Collective collective : {Collective::alltoall, Collective::gather, Collective::scatter})
    CHECK(std::ranges::none_of(planner.candidates(collective, 0), of_islands));
}

namespace {

// Hosts of two sockets, each with four devices of 24 GB/s, and a NIC of 25 GB/s that these share.
topology::Topology boxes_of_two_nics(int hosts) {
  topology::Topology machine;
  machine.name = "two NICs";
  machine.ranks = 8 * hosts;
  const topology::Node network = machine.ranks;
  machine.switches = 1 + 2 * hosts;
  const auto join = [&](topology::Node a, topology::Node b, topology::LinkClass link_class, double gbytes_per_s) {
    for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
      machine.links.push_back({src, dst, 1, gbytes_per_s, 1, link_class});
  };
  for (int socket = 0; socket < 2 * hosts; ++socket) {
    const topology::Node cpu = network + 1 + socket;
    for (int device = 0; device < 4; ++device) join(4 * socket + device, cpu, topology::LinkClass::pcie, 24);
    if (socket % 2 == 0) join(cpu, cpu + 1, topology::LinkClass::pcie, 20);
    join(cpu, network, topology::LinkClass::net, 25);
  }
  return machine;
}

}  // namespace

TEST_CASE("a Broadcast from a socket whose devices share a NIC is nearly as fast as a device's link") {
  const topology::Topology machine = boxes_of_two_nics(6);
  const double bytes = 64 * kMiB;
  for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
    portfolio::ClusterPlanner planner(machine);
    const auto all = planner.candidates(collective, 3);
    const auto order = portfolio::ranked(all, sccl_test::moved_in_lanes(bytes, kSlice));
    INFO(info(collective).name << " by " << all[order.front().candidate].composite->name);
    CHECK(order.front().time_us < 1.12 * bytes / 24e3);
  }
}
