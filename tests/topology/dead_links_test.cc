// Links of no rate in a file are left out, so that plans do not count on them.
#include "topology/dead_links.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "topology/formats/json.h"
#include "topology/formats/load.h"
#include "topology/presets.h"
#include "topology/symmetry/cluster.h"

using namespace sccl;
using topology::Link;
using topology::LinkClass;
using topology::Node;
using topology::Topology;

namespace {

void join(Topology& machine, Node a, Node b, double gbytes_per_s, LinkClass link_class) {
  machine.links.push_back({a, b, 1, gbytes_per_s, 1, link_class});
  machine.links.push_back({b, a, 1, gbytes_per_s, 1, link_class});
}

// Two hosts of two devices, each of which has a NIC at a network; `first` is the rate of rank 0's.
Topology two_hosts(double first) {
  Topology machine;
  machine.name = "two";
  machine.ranks = 4;
  machine.switches = 5;
  for (const Rank rank : {0, 2}) join(machine, rank, rank + 1, 100, LinkClass::nvlink);
  for (const Rank rank : {0, 1, 2, 3}) {
    join(machine, rank, 4 + rank, 50, LinkClass::net);
    join(machine, 4 + rank, 8, rank == 0 ? first : 25, LinkClass::net);
  }
  return machine;
}

}  // namespace

TEST_CASE("a NIC of no rate is no way to the network") {
  Topology machine = two_hosts(0);
  machine.shared.push_back({1, {{0, 4}, {1, 5}}});
  machine.shared.push_back({1, {{0, 4}}});
  CHECK(topology::leave_out_dead_links(machine) == 2);
  CHECK_NOTHROW(topology::validate(machine));
  CHECK(machine.links.size() == two_hosts(0).links.size() - 4);
  CHECK(machine.shared.size() == 1);
  const topology::Cluster cluster = topology::cluster_of(machine);
  REQUIRE(cluster.hosts.size() == 2);
  CHECK(cluster.ports(0) == std::vector<int>{1});
  CHECK(cluster.ports(1) == std::vector<int>{0, 1});
}

TEST_CASE("a NIC that carries nothing in one direction is left out in both") {
  Topology machine = two_hosts(25);
  for (Link& link : machine.links)
    if (link.src == 8 && link.dst == 4) link.gbytes_per_s = 0;
  CHECK(topology::leave_out_dead_links(machine) == 1);
  CHECK(topology::cluster_of(machine).ports(0) == std::vector<int>{1});
}

TEST_CASE("where no link has a rate, or all have one, all stay") {
  Topology machine = two_hosts(25);
  Topology same = machine;
  CHECK(topology::leave_out_dead_links(same) == 0);
  CHECK(same == machine);
  for (Link& link : machine.links) link.gbytes_per_s = 0;
  same = machine;
  CHECK(topology::leave_out_dead_links(same) == 0);
  CHECK(same == machine);
}

TEST_CASE("a host all of whose NICs in a file have no rate is told to have none") {
  Topology machine = two_hosts(0);
  for (Link& link : machine.links)
    if (link.src == 5 || link.dst == 5) link.gbytes_per_s = 0;
  const auto path = std::filesystem::temp_directory_path() / "sccl_dead_links_test.json";
  std::ofstream(path) << topology::to_json(machine).dump();
  const Topology loaded = topology::load(path.string()).topology;
  std::filesystem::remove(path);
  CHECK_THROWS_WITH(topology::require_network(loaded, topology::cluster_of(loaded)),
                    Catch::Contains("no NIC joins the host of ranks 0, 1"));
}

TEST_CASE("switches of a file that have no links are left out, and the others keep their kinds") {
  Topology machine = topology::preset("pcie4");
  const Topology plain = machine;
  constexpr int kMore = 60000;
  for (Link& link : machine.links)
    for (topology::Node* node : {&link.src, &link.dst})
      if (*node >= machine.ranks) *node += kMore;
  for (topology::SharedSet& set : machine.shared)
    for (auto& [src, dst] : set.links) {
      if (src >= machine.ranks) src += kMore;
      if (dst >= machine.ranks) dst += kMore;
    }
  machine.switches += kMore;
  if (!plain.switch_kinds.empty())
    machine.switch_kinds.insert(machine.switch_kinds.begin(), kMore, topology::SwitchKind::unknown);
  topology::leave_out_lone_switches(machine);
  CHECK(machine == plain);
}
