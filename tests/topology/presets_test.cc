// Presets are the machines they are named after; a part of one keeps exactly what still joins its devices.
#include "topology/presets.h"

#include <catch2/catch.hpp>
#include <vector>

#include "base/error.h"
#include "topology/formats/json.h"
#include "topology/graph/routes.h"

using namespace sccl;
using namespace sccl::topology;

namespace {

int degree(const Topology& topology, Node node) {
  int lanes = 0;
  for (const Link& link : topology.links)
    if (link.src == node) lanes += link.lanes;
  return lanes;
}

std::string refusal(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every preset is valid, symmetric and joins all its ranks") {
  for (const Preset& one : presets()) {
    INFO(one.name);
    const Topology topology = preset(one.name);
    CHECK(topology.name == one.name);
    validate(topology);
    for (const auto& [edge, lanes] : edge_lanes(topology)) CHECK(topology.lanes(edge.second, edge.first) == lanes);
    CHECK(to_json(from_json(to_json(topology))) == to_json(topology));
  }
}

TEST_CASE("thousands of devices on a switch have two links each") {
  const Topology many = preset("switch:2048");
  CHECK(many.ranks == 2048);
  CHECK(many.links.size() == 4096);
  CHECK(Routes(many).path(5, 2047).size() == 2);
  CHECK_THAT(refusal([] { preset("switch:0"); }), Catch::Contains("switch:N"));
}

TEST_CASE("devices of a DGX-1 have six and four NVLinks") {
  for (Node node = 0; node < 8; ++node) {
    CHECK(degree(preset("dgx1v"), node) == 6);
    CHECK(degree(preset("dgx1p"), node) == 4);
  }
  CHECK(preset("dgx1v").lanes(0, 3) == 2);
  CHECK(preset("dgx1v").lanes(0, 1) == 1);
  CHECK(preset("dgx1v").lanes(0, 7) == 0);
}

TEST_CASE("the Z52 is the ring 2 0 3 5 6 4 7 1") {
  const Topology topology = preset("z52");
  const std::vector<int> ring{2, 0, 3, 5, 6, 4, 7, 1};
  CHECK(topology.links.size() == 16);
  for (std::size_t i = 0; i < ring.size(); ++i) CHECK(topology.lanes(ring[i], ring[(i + 1) % 8]) == 1);
}

TEST_CASE("a partial allocation keeps the links among its devices, renumbered in the order given") {
  const std::vector<int> devices{4, 0, 7};
  const Topology part = subset(preset("dgx1v"), devices);
  CHECK(part.ranks == 3);
  CHECK(part.devices == devices);
  CHECK(part.lanes(0, 1) == 2);  // 4-0
  CHECK(part.lanes(0, 2) == 2);  // 4-7
  CHECK(part.lanes(1, 2) == 0);  // 0-7
  CHECK(subset(part, std::vector<int>{2, 0}).devices == std::vector<int>{7, 4});
}

TEST_CASE("a switch stays while two nodes use it, a shared set while a link of it stays") {
  const Topology one_socket = subset(preset("pcie8"), std::vector<int>{0, 1});
  CHECK(one_socket.switches == 1);
  CHECK(Routes(one_socket).connected(0, 1));
  CHECK(subset(preset("pcie8"), std::vector<int>{0, 5}).switches == 2);
  CHECK(subset(preset("pcie8"), std::vector<int>{3}).switches == 0);
  const Topology island = subset(preset("z52-full"), std::vector<int>{0, 1, 4});
  REQUIRE(island.shared.size() == 1);
  CHECK(island.shared[0].links.size() == 2);
}

TEST_CASE("links that share bandwidth share as much of it in a cluster") {
  const auto shared_gbytes_per_s = [](const Topology& topology) {
    const SharedSet& set = topology.shared.front();
    for (const Link& link : topology.links)
      if (Edge(link.src, link.dst) == set.links.front()) return set.lanes * link.gbytes_per_s / link.lanes;
    return 0.0;
  };
  CHECK(shared_gbytes_per_s(preset("z52-full")) == Approx(27));
  CHECK(shared_gbytes_per_s(preset("2*z52-full")) == Approx(27));
}

TEST_CASE("a path goes over a direct link, else over switches, never over a rank") {
  const Topology pairs = preset("nvpairs4");
  Routes routes(pairs);
  CHECK(routes.path(0, 1).size() == 1);
  const auto staged = routes.path(0, 2);
  REQUIRE(staged.size() == 2);
  CHECK(staged[0] == Edge{0, 4});
  CHECK(staged[1] == Edge{4, 2});
  const Topology cube = preset("dgx1v");
  CHECK_FALSE(Routes(cube).connected(0, 7));
  const Topology cluster = preset("2*pcie8");
  CHECK(Routes(cluster).path(0, 15).size() == 2);
  CHECK(Routes(cluster).path(0, 4).size() == 3);  // not over the network, though that is shorter
}

TEST_CASE("a cluster counts lanes in units of its slowest link") {
  const Topology cluster = preset("2*dgx1v");
  CHECK(cluster.ranks == 16);
  CHECK(cluster.switches == 1);
  CHECK(cluster.lanes(0, 3) == 4);
  CHECK(cluster.lanes(8, 11) == 4);
  CHECK(cluster.lanes(0, 16) == 1);
  CHECK(preset("2*dgx1v", 400).lanes(0, 16) == 2);
  CHECK(preset("2*dgx1v", 400).lanes(0, 3) == 2);
}

TEST_CASE("unknown names and devices are refused with what is known") {
  CHECK_THAT(refusal([] { preset("dgx3"); }), Catch::Contains("dgx1v") && Catch::Contains("host:N"));
  CHECK_THAT(refusal([] { preset("host:0"); }), Catch::Contains("host:0"));
  CHECK_THAT(refusal([] { preset("0*dgx2"); }), Catch::Contains("0*dgx2"));
  CHECK_THAT(refusal([] { preset("2*2*dgx2"); }), Catch::Contains("2*2*dgx2"));
  CHECK_THAT(refusal([] { preset("2*dgx2", -1); }), Catch::Contains("positive"));
  CHECK_THAT(refusal([] { subset(preset("dgx2"), std::vector<int>{16}); }), Catch::Contains("device 16"));
  CHECK_THAT(refusal([] { subset(preset("dgx2"), std::vector<int>{1, 1}); }), Catch::Contains("twice"));
  CHECK_THAT(refusal([] { subset(preset("dgx2"), std::vector<int>{}); }), Catch::Contains("at least one"));
}

TEST_CASE("a GCD of an MI250X server has four links to its twin and three outwards") {
  const Topology topology = preset("mi250x");
  for (Rank gcd = 0; gcd < 16; ++gcd) {
    CHECK(topology.lanes(gcd, gcd ^ 1) == 4);
    CHECK(degree(topology, gcd) == 7);
  }
}

TEST_CASE("kinds of switches go with them into parts and files") {
  const std::vector<int> devices{1, 5};
  const Topology part = subset(preset("pcie8"), devices);
  CHECK(part.switch_kinds == std::vector{SwitchKind::cpu, SwitchKind::cpu});
  CHECK(from_json(to_json(part)).switch_kinds == part.switch_kinds);
  CHECK(preset("2*dgx2").switch_kinds == std::vector{SwitchKind::nvswitch, SwitchKind::nvswitch, SwitchKind::fabric});
  nlohmann::json broken = to_json(part);
  broken["switch_kinds"] = {"cpu"};
  CHECK(refusal([&] { from_json(broken); }).find("tells the kinds of 1") != std::string::npos);
}
