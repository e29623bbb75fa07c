// What hosts send one another lies on the same links however it is added up.
#include <catch2/catch.hpp>
#include <map>

#include "base/splitmix.h"
#include "clusters.h"
#include "compose/network/leaf_traffic.h"
#include "portfolio/composites/composites.h"

using namespace sccl;
using compose::SumsByKey;

namespace {

std::vector<topology::Topology> machines() {
  return {uneven(),
          dealt(),
          pcie_beside_line(),
          in_a_row(5, 3, {20, 5, 10, 5}),
          racks(4, 3, 2),
          racks(3, 2, 1),
          in_a_row(6, 2, {5, 5, 5, 5, 5, 5}),
          with_rates({20, 12, 20, 20, 15, 20})};
}

// Two hosts of two devices on switches of their own, beside one host with a NIC on each of them.
topology::Topology two_switches() {
  topology::Topology machine;
  machine.name = "two-switches";
  machine.ranks = 6;
  machine.switches = 2;
  const auto join = [&](int a, int b, double rate, topology::LinkClass kind) {
    join_both_ways(machine, a, b, rate, kind);
  };
  for (const int host : {0, 2, 4}) join(host, host + 1, 50, topology::LinkClass::nvlink);
  for (const auto& [rank, leaf] : {std::pair(0, 6), {1, 6}, {2, 7}, {3, 7}, {4, 6}, {5, 7}})
    join(rank, leaf, 10, topology::LinkClass::net);
  join(6, 7, 15, topology::LinkClass::net);
  return machine;
}

class Links {
 public:
  explicit Links(const topology::Topology& machine)
      : cluster_(topology::cluster_of(machine)),
        edges_(machine),
        ways_(machine, cluster_),
        loads_(edges_),
        traffic_(ways_, loads_, machine.nodes()) {}

  const topology::Cluster& cluster() const { return cluster_; }
  compose::LeafTraffic& traffic() { return traffic_; }

  void check_same(const Links& other) const {
    for (schedule::EdgeId edge = 0; edge < edges_.size(); ++edge) {
      INFO("link " << edges_[edge].ends.first << " to " << edges_[edge].ends.second);
      CHECK(loads_.of(edge).connections == other.loads_.of(edge).connections);
      CHECK(loads_.of(edge).bytes == Approx(other.loads_.of(edge).bytes).margin(1e-12));
    }
  }

 private:
  topology::Cluster cluster_;
  schedule::EdgeIndex edges_;
  topology::NetworkWays ways_;
  compose::LinkLoads loads_;
  compose::LeafTraffic traffic_;
};

}  // namespace

TEST_CASE("the parents of all hosts together are those of each host") {
  for (const topology::Topology& machine : machines()) {
    portfolio::CompositePlanner planner(machine);
    for (const Collective collective : kCollectives)
      for (const auto& one : planner.candidates(collective, machine.ranks - 1)) {
        const compose::Routes routes(*one.composite);
        std::vector<std::pair<int, compose::Step>> parents, each(one.composite->hosts.size());
        for (compose::ChunkId chunk = 0; chunk < std::min(64, routes.chunks()); ++chunk) {
          for (std::size_t host = 0; host < each.size(); ++host)
            each[host] = routes.parent(chunk, static_cast<int>(host));
          routes.find_parents(chunk, parents);
          INFO(one.name() << " for " << info(collective).name << " on " << machine.name << ", chunk " << chunk);
          REQUIRE(parents == each);
        }
      }
  }
}

TEST_CASE("sums by key are those of a map to the last bit, and ascend") {
  SumsByKey sums;
  std::map<SumsByKey::Key, double> known;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::uint64_t random = splitmix64(i);
    const SumsByKey::Key key = compose::of_hosts(static_cast<int>(random % 40), static_cast<int>(random >> 20 & 31));
    const double more = 1.0 / static_cast<double>(1 + (random >> 40));
    sums.add(key, more);
    known[key] += more;
  }
  CHECK(sums.ascending() == std::vector<std::pair<SumsByKey::Key, double>>(known.begin(), known.end()));
}

TEST_CASE("messages between leaf switches load the same links path by path and together, and an AlltoAll by pairs") {
  std::vector<topology::Topology> all = machines();
  all.push_back(two_switches());
  for (const topology::Topology& machine : all) {
    portfolio::CompositePlanner planner(machine);
    for (const Collective collective : {Collective::alltoall, Collective::allgather})
      for (const auto& one : planner.candidates(collective, 0)) {
        const compose::Composite& composite = *one.composite;
        if (composite.hosts.size() < 2) continue;
        SumsByKey pairs;
        const auto hosts = static_cast<int>(composite.hosts.size());
        for (int from = 0; from < hosts; ++from)
          for (int to = 0; to < hosts; ++to)
            if (from != to)
              pairs.add(compose::of_hosts(from, to),
                        static_cast<double>(composite.hosts[static_cast<std::size_t>(from)].ranks.size() *
                                            composite.hosts[static_cast<std::size_t>(to)].ranks.size()) /
                            composite.ranks());
        INFO(one.name() << " for " << info(collective).name << " on " << machine.name);
        Links each(machine), together(machine), by_groups(machine);
        lay_pairs(composite, each.cluster(), pairs, compose::Paths::each, each.traffic());
        lay_pairs(composite, together.cluster(), pairs, compose::Paths::together, together.traffic());
        together.check_same(each);
        if (collective != Collective::alltoall) continue;
        lay_alltoall(composite, by_groups.cluster(), by_groups.traffic());
        by_groups.check_same(each);
      }
  }
}
