// What cannot be packed is answered clearly, naming the ranks or the number, and at once.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "topology/presets.h"
#include "treegen/packing/pack.h"

using namespace sccl;
using namespace sccl::treegen;
using Catch::Matchers::Contains;

namespace {

topology::Topology path_of(int ranks) {
  topology::Topology topology;
  topology.name = "path";
  topology.ranks = ranks;
  for (Rank rank = 0; rank + 1 < ranks; ++rank) {
    topology.links.push_back({rank, rank + 1, 1, 25, 1, topology::LinkClass::nvlink});
    topology.links.push_back({rank + 1, rank, 1, 25, 1, topology::LinkClass::nvlink});
  }
  return topology;
}

std::string complaint(const topology::Topology& topology, Collective collective, Rank root) {
  try {
    pack(topology, collective, root);
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
}

}  // namespace

TEST_CASE("ranks that cannot be reached are named") {
  auto machine = path_of(5);
  std::erase_if(machine.links, [](const topology::Link& link) { return link.src + link.dst == 5; });  // 2 - 3
  CHECK_THAT(complaint(machine, Collective::broadcast, 1), Contains("no path leads from rank 1 to 3,4"));
  CHECK_THAT(complaint(machine, Collective::reduce, 1), Contains("no path leads to rank 1 from 3,4"));
  CHECK_THAT(complaint(machine, Collective::allreduce, 0), Contains("from rank 0 to 3,4"));
  CHECK_THAT(complaint(machine, Collective::allgather, 0), Contains("from rank 0 to 3,4"));
  CHECK_THAT(complaint(machine, Collective::reducescatter, 0), Contains("to rank 0 from 3,4"));
}

TEST_CASE("devices that cannot be reached are named by rank and device") {
  const auto part = topology::subset(topology::preset("dgx1v"), std::vector<int>{0, 1, 6});
  CHECK_THAT(complaint(part, Collective::broadcast, 0), Contains("from rank 0 (device 0) to 2 (device 6)"));
}

TEST_CASE("a link in one direction only serves one direction only") {
  auto machine = path_of(3);
  std::erase_if(machine.links, [](const topology::Link& link) { return link.src == 2; });  // nothing leaves rank 2
  CHECK(pack(machine, Collective::broadcast, 0).rate == 1);
  CHECK(pack(machine, Collective::reduce, 2).rate == 1);
  CHECK_THAT(complaint(machine, Collective::broadcast, 2), Contains("no path leads from rank 2 to 0,1"));
  CHECK_THAT(complaint(machine, Collective::reduce, 0), Contains("no path leads to rank 0 from 2"));
  CHECK_THAT(complaint(machine, Collective::allreduce, 0), Contains("from rank 2 to 0,1"));
}

TEST_CASE("a root outside the ranks is refused with its number") {
  CHECK_THAT(complaint(path_of(3), Collective::broadcast, 3), Contains("root 3 is not one of the ranks 0..2"));
  CHECK_THAT(complaint(path_of(3), Collective::reduce, -1), Contains("root -1"));
}

TEST_CASE("one rank has nothing to pack, two ranks have") {
  CHECK_THAT(complaint(path_of(1), Collective::allreduce, 0), Contains("give at least two"));
  CHECK(pack(path_of(2), Collective::allreduce, 0).rate == 1);
  CHECK(pack(path_of(2), Collective::allgather, 0).rate == 1);
  CHECK(pack(path_of(2), Collective::broadcast, 1).rate == 1);
}

TEST_CASE("a link without lanes is refused") {
  auto machine = path_of(3);
  machine.links[0].lanes = 0;
  CHECK_THAT(complaint(machine, Collective::broadcast, 0), Contains("0 lanes"));
}

TEST_CASE("links without bandwidth cannot be packed by bandwidth") {
  auto machine = path_of(3);
  machine.links[0].gbytes_per_s = 0;
  CHECK_THROWS_WITH(pack(machine, Collective::broadcast, 0, {CapacityUnit::gbytes_per_s, TreeWeights::any}),
                    Contains("has no bandwidth"));
}

TEST_CASE("other collectives are refused by name") {
  CHECK_THAT(complaint(path_of(3), Collective::alltoall, 0), Contains("not packed for alltoall"));
}

TEST_CASE("switches that lead nowhere do not matter") {
  auto machine = path_of(3);
  machine.switches = 2;
  machine.links.push_back({0, 3, 4, 100, 1, topology::LinkClass::pcie});
  machine.links.push_back({3, 0, 4, 100, 1, topology::LinkClass::pcie});
  for (const Collective collective : {Collective::broadcast, Collective::allreduce, Collective::allgather})
    CHECK(pack(machine, collective, 0).rate == pack(path_of(3), collective, 0).rate);
}

TEST_CASE("a packing that was tampered with does not pass the check") {
  const auto machine = topology::preset("dgx1v");
  const Links links(machine);
  const Packing good = pack(machine, Collective::allreduce, 0);
  CHECK_NOTHROW(check(links, good));
  Packing heavier = good;
  heavier.routes[0].weight += Rational(1, 1000000);
  CHECK_THROWS_WITH(check(links, heavier), Contains("carries"));
  Packing wrong_sum = good;
  wrong_sum.rate -= Rational(1, 1000000);
  CHECK_THROWS_WITH(check(links, wrong_sum), Contains("do not sum up"));
  Packing cyclic = good;
  auto& parent = cyclic.routes[0].route.out.parent;
  const Rank root = cyclic.routes[0].route.out.root;
  parent[static_cast<std::size_t>(root)] = root == 0 ? 3 : 0;
  CHECK_THROWS_WITH(check(links, cyclic), Contains("does not span"));
}
