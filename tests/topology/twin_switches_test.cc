// NICs and spine switches that are alike count as one of all their rates together.
#include "topology/twin_switches.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <utility>
#include <vector>

#include "topology/presets.h"

using namespace sccl;
using namespace sccl::topology;

namespace {

// Two devices (0, 1) at a switch (2) with two NICs (3, 4), and the network (5).
Topology two_nics() {
  Topology topology{"two NICs", 2, 4, {}, {}, {}, {}};
  const auto join = [&](Node a, Node b, double gbytes_per_s, LinkClass link_class) {
    for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
      topology.links.push_back({src, dst, 1, gbytes_per_s, 1, link_class});
  };
  for (const Rank rank : {0, 1}) join(rank, 2, 50, LinkClass::pcie);
  for (const Node nic : {3, 4}) {
    join(2, nic, 30, LinkClass::pcie);
    join(nic, 5, 25, LinkClass::net);
  }
  return topology;
}

std::ptrdiff_t links_of(const Topology& topology, Node node) {
  return std::ranges::count_if(topology.links, [&](const Link& link) { return link.src == node || link.dst == node; });
}

Topology joined(Topology topology) {
  join_twin_switches(topology);
  return topology;
}

}  // namespace

TEST_CASE("of two NICs that are alike the first takes the links of both, and nodes keep their numbers") {
  const Topology topology = joined(two_nics());
  CHECK(topology.switches == 4);
  CHECK(topology.links.size() == two_nics().links.size());
  for (const auto& [src, dst] : {std::pair(2, 3), std::pair(3, 2), std::pair(3, 5), std::pair(5, 3)})
    CHECK(topology.lanes(src, dst) == 2);
  CHECK(topology.lanes(0, 2) == 1);
  CHECK(links_of(topology, 4) == 0);
}

TEST_CASE("switches that are not quite alike stay what they are") {
  const auto unchanged = [](const auto& change) {
    Topology topology = two_nics();
    change(topology);
    CHECK(joined(topology) == topology);
  };
  unchanged([](Topology& one) { one.links.back().gbytes_per_s = 24; });
  unchanged([](Topology& one) { one.links.back().alpha_us = 2; });
  unchanged([](Topology& one) { one.links.pop_back(); });
  unchanged([](Topology& one) { one.links.push_back({4, 0, 1, 50, 1, LinkClass::pcie}); });
  unchanged([](Topology& one) { one.shared.push_back({1, {{2, 3}, {2, 4}}}); });
  unchanged([](Topology& one) {
    for (Link& link : one.links) link.link_class = LinkClass::pcie;  // no network
  });
}

TEST_CASE("spine switches that join the same leaf switches count as one") {
  Topology topology{"two leaves, two spines", 2, 4, {}, {}, {}, {}};
  for (const Node leaf : {2, 3}) {
    const auto join = [&](Node a, Node b) {
      for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
        topology.links.push_back({src, dst, 1, 10, 1, LinkClass::net});
    };
    join(leaf - 2, leaf);
    for (const Node spine : {4, 5}) join(leaf, spine);
  }
  join_twin_switches(topology);
  CHECK(topology.lanes(2, 4) == 2);
  CHECK(topology.lanes(4, 3) == 2);
  CHECK(topology.lanes(0, 2) == 1);
  CHECK(links_of(topology, 5) == 0);
}

TEST_CASE("networks at which every host has a NIC of the same switch count as one, and links between them go") {
  // Two hosts of a device (0, 1) at a switch (2, 3) with a NIC (4, 5; 6, 7) at each of two networks (8, 9).
  Topology topology{"two rails", 2, 8, {}, {}, {}, {}};
  const auto join = [&](Node a, Node b, LinkClass link_class) {
    for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
      topology.links.push_back({src, dst, 1, 25, 1, link_class});
  };
  for (const int host : {0, 1}) {
    join(host, 2 + host, LinkClass::pcie);
    for (const int rail : {0, 1}) {
      join(2 + host, 4 + 2 * host + rail, LinkClass::pcie);
      join(4 + 2 * host + rail, 8 + rail, LinkClass::net);
    }
  }
  join(8, 9, LinkClass::net);
  SECTION("each NIC at the switch of both devices of its host") {
    join_twin_switches(topology);
    for (const auto& [src, dst] : {std::pair(2, 4), std::pair(4, 8), std::pair(8, 6), std::pair(6, 3)})
      CHECK(topology.lanes(src, dst) == 2);
    for (const Node without : {5, 7, 9}) CHECK(links_of(topology, without) == 0);
  }
  SECTION("one host has a slower NIC at the second network") {
    for (Link& link : topology.links)
      if ((link.src == 7 && link.dst == 9) || (link.src == 9 && link.dst == 7)) link.gbytes_per_s = 10;
    const Topology before = topology;
    join_twin_switches(topology);
    CHECK(topology == before);
  }
}

TEST_CASE("after switches were joined no others are alike") {
  // NICs 3 and 4 have one link to the network (6) each, NIC 5 two.
  Topology topology{"three NICs", 1, 6, {}, {}, {}, {}};
  const auto join = [&](Node a, Node b, LinkClass link_class) {
    for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
      topology.links.push_back({src, dst, 1, 25, 1, link_class});
  };
  join(0, 2, LinkClass::pcie);
  for (const Node nic : {3, 4, 5, 5}) {
    join(2, nic, LinkClass::pcie);
    join(nic, 6, LinkClass::net);
  }
  join_twin_switches(topology);
  CHECK(topology.lanes(2, 3) == 4);
  CHECK(topology.lanes(3, 6) == 4);
  const Topology once = topology;
  join_twin_switches(topology);
  CHECK(topology == once);
}

TEST_CASE("switches that are alike only for some devices are joined where these are chosen") {
  Topology topology = two_nics();
  topology.links.push_back({4, 1, 1, 50, 1, LinkClass::pcie});
  CHECK(joined(topology) == topology);
  const Topology part = subset(topology, std::vector<int>{0});
  CHECK(std::ranges::count_if(part.links, [](const Link& link) { return link.link_class == LinkClass::net; }) == 4);
  CHECK(links_of(part, 3) == 0);
}
