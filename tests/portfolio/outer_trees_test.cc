// Trees of hosts carry what the network lets them, and never more than it has.
#include "portfolio/composites/outer_trees.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <random>

#include "portfolio/composites/composites.h"
#include "topology/presets.h"

using namespace sccl;
using portfolio::OuterUse;

namespace {

// Hosts of one device on switches of their own, which links join.
struct Network {
  topology::Topology machine;

  explicit Network(int hosts, double nic) {
    machine.name = "network";
    machine.ranks = hosts;
    machine.switches = hosts;
    for (int host = 0; host < hosts; ++host) join(host, hosts + host, nic);
  }
  void join(int a, int b, double rate) {
    machine.links.push_back({a, b, 1, rate, 1, topology::LinkClass::net});
    machine.links.push_back({b, a, 1, rate, 1, topology::LinkClass::net});
  }
  void join_hosts(int a, int b, double rate) { join(machine.ranks + a, machine.ranks + b, rate); }
};

std::vector<compose::Host> hosts_of(const topology::Topology& machine) {
  std::vector<compose::Host> hosts;
  for (Rank rank = 0; rank < machine.ranks; ++rank) hosts.push_back({0, {rank}, {0}, {}});
  return hosts;
}

std::optional<portfolio::OuterTrees> packed(const topology::Topology& machine, OuterUse use,
                                            const std::vector<double>& data) {
  compose::CostModel costs(std::make_shared<topology::Topology>(machine),
                           std::make_shared<topology::Cluster>(topology::cluster_of(machine)));
  const compose::HopUse hops(costs, hosts_of(machine));
  return portfolio::outer_trees(hops, use, data);
}

// Adds up what the trees of all roots put on links, hop by hop.
double busiest_us(const topology::Topology& machine, const portfolio::OuterTrees& trees, OuterUse use,
                  const std::vector<double>& data) {
  compose::CostModel costs(std::make_shared<topology::Topology>(machine),
                           std::make_shared<topology::Cluster>(topology::cluster_of(machine)));
  const compose::HopUse hops(costs, hosts_of(machine));
  std::vector<double> sums(static_cast<std::size_t>(hops.rows()), 0);
  const auto load = [&](int from, int to, double bytes) {
    for (const auto& one : hops.of(from, to)) sums[static_cast<std::size_t>(one.row)] += bytes * one.us_per_byte;
  };
  const int hosts = machine.ranks;
  const double all = std::accumulate(data.begin(), data.end(), 0.0);
  const auto take = [&](int root, const compose::Tree& tree, double bytes) {
    for (int place = 1; place < hosts; ++place) {
      const int child = (place + root) % hosts;
      const int parent = (tree.parent[static_cast<std::size_t>(place)] + root) % hosts;
      if (use != OuterUse::sums) load(parent, child, bytes);
      if (use != OuterUse::copies) load(child, parent, bytes);
    }
  };
  for (int root = 0; root < hosts; ++root) {
    const auto& of_root = trees.of_roots[static_cast<std::size_t>(root)];
    const auto turns = static_cast<double>(of_root.size());
    for (std::size_t turn = 0; turn < of_root.size(); ++turn)
      if (use != OuterUse::both)
        take(root, of_root[turn], data[static_cast<std::size_t>(root)] / turns);
      else if (trees.root_hosts[turn] == root)
        take(root, of_root[turn], all / turns);
  }
  return *std::max_element(sums.begin(), sums.end());
}

}  // namespace

TEST_CASE("both ways round a ring of slow links are used equally") {
  for (const int hosts : {3, 4, 5, 8, 16}) {
    Network ring(hosts, 100);
    for (int host = 0; host < hosts; ++host) ring.join_hosts(host, (host + 1) % hosts, 10);
    const std::vector<double> data(static_cast<std::size_t>(hosts), 1);
    // 2 links of 10 GB/s bring the blocks of all other hosts.
    const double least = (hosts - 1) / 20e3;
    for (const OuterUse use : {OuterUse::copies, OuterUse::sums}) {
      const auto trees = packed(ring.machine, use, data);
      INFO(hosts << " hosts");
      REQUIRE(trees);
      CHECK(trees->us_per_byte < 1.03 * least);
      CHECK(trees->us_per_byte > 0.999 * least);
    }
    // Sums of all blocks: trees that leave one link out each, and use the others in both directions.
    const auto sums = packed(ring.machine, OuterUse::both, data);
    REQUIRE(sums);
    CHECK(sums->us_per_byte < 1.05 * (hosts - 1) / 10e3);
    CHECK(sums->root_hosts.size() == sums->of_roots.front().size());
  }
}

TEST_CASE("round a ring of hosts data take the shorter way") {
  for (const int hosts : {3, 5, 7, 9}) {
    Network ring(hosts, 100);
    for (int host = 0; host < hosts; ++host) ring.join_hosts(host, (host + 1) % hosts, 10);
    for (const OuterUse use : {OuterUse::copies, OuterUse::sums}) {
      const auto trees = packed(ring.machine, use, std::vector<double>(static_cast<std::size_t>(hosts), 1));
      REQUIRE(trees);
      for (const auto& of_root : trees->of_roots)
        for (const compose::Tree& tree : of_root) CHECK(tree.steps == (hosts - 1) / 2);
    }
  }
}

TEST_CASE("trees of random networks use links as told, and are trees of each host") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    const int hosts = std::uniform_int_distribution(3, 9)(random);
    const auto rate = [&] { return static_cast<double>(std::uniform_int_distribution(1, 40)(random)); };
    Network network(hosts, 20);
    for (int host = 1; host < hosts; ++host)
      network.join_hosts(host, std::uniform_int_distribution(0, host - 1)(random), rate());
    for (int more = 0; more < 2; ++more) {
      const int a = std::uniform_int_distribution(0, hosts - 1)(random);
      const int b = (a + std::uniform_int_distribution(1, hosts - 1)(random)) % hosts;
      network.join_hosts(a, b, rate());
    }
    std::vector<double> data;
    for (int host = 0; host < hosts; ++host) data.push_back(std::uniform_int_distribution(0, 8)(random));
    data.front() = 1;
    for (const OuterUse use : {OuterUse::copies, OuterUse::sums, OuterUse::both}) {
      const auto trees = packed(network.machine, use, data);
      REQUIRE(trees);
      CHECK(trees->us_per_byte == Approx(busiest_us(network.machine, *trees, use, data)));
      REQUIRE(trees->of_roots.size() == static_cast<std::size_t>(hosts));
      for (const auto& of_root : trees->of_roots)
        for (const compose::Tree& tree : of_root)
          for (int place = 1; place < hosts; ++place) {
            const int parent = tree.parent[static_cast<std::size_t>(place)];
            REQUIRE((parent >= 0 && parent < hosts));
            CHECK(tree.step[static_cast<std::size_t>(place)] > tree.step[static_cast<std::size_t>(parent)]);
          }
    }
  }
}

TEST_CASE("the trees of all roots are not looked for where hosts reach each other at one speed, or are many") {
  const auto finds = [](const topology::Topology& machine) {
    compose::CostModel costs(std::make_shared<topology::Topology>(machine),
                             std::make_shared<topology::Cluster>(topology::cluster_of(machine)));
    portfolio::OuterPlanner planner(costs, hosts_of(machine));
    return planner.find(Collective::allgather, 0) != nullptr;
  };
  CHECK_FALSE(finds(topology::preset("8*host:1")));
  for (const int hosts : {2, 3, 16, 17}) {
    Network line(hosts, 10);
    for (int host = 1; host < hosts; ++host) line.join_hosts(host - 1, host, 10);
    CHECK(finds(line.machine) == (hosts > 2 && hosts <= portfolio::kMostPackedHosts));
  }
}
