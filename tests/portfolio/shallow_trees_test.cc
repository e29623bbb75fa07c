// Trees of bounded depth are correct, as shallow as asked, and leave no link busier than they found it.
#include "portfolio/host/shallow_trees.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "portfolio/host/host_level.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/cost.h"
#include "topology/presets.h"

using namespace sccl;

namespace {

double busiest(schedule::Schedule schedule) {
  schedule.pipelined = true;
  return schedule::linear_cost(schedule, 1 << 20).us_per_byte;
}

}  // namespace

TEST_CASE("shallow trees reach every device, and deeper ones keep links less busy") {
  for (const char* name : {"dgx1v", "mi250x", "z52", "pcie8", "dgx-a100"}) {
    const topology::Topology box = topology::preset(name);
    for (const Collective collective : {Collective::allgather, Collective::reducescatter}) {
      const auto least = portfolio::shallow_trees(box, collective, 0);
      REQUIRE(least);
      for (const int more : {0, 1, 2}) {
        const auto trees = portfolio::shallow_trees(box, collective, more);
        REQUIRE(trees);
        INFO(trees->name << " for " << info(collective).name << " on " << name);
        CHECK_NOTHROW(schedule::verify(*trees));
        CHECK(trees->steps <= least->steps + more);
        CHECK(busiest(*trees) <= 1.001 * busiest(*least));
      }
    }
  }
}

// On a DGX-1V and an MI250X no single move relieves the busiest link of the first trees; several together do, some of
// which make it busier at first.
TEST_CASE("shallow trees come near to the least that cuts allow without being as deep as packed trees") {
  const auto of_all = [](const char* name, int more) {
    const topology::Topology box = topology::preset(name);
    const auto trees = portfolio::shallow_trees(box, Collective::allgather, more);
    return busiest(*trees) / box.ranks;
  };
  CHECK(of_all("dgx1v", 0) < 6.3e-6);  // us for a byte; every device's links: 5.83e-6
  CHECK(of_all("dgx1v", 1) < 6.0e-6);
  CHECK(of_all("mi250x", 0) < 3.7e-6);  // every two devices' links: 2.92e-6
  CHECK(of_all("mi250x", 1) < 3.3e-6);
  CHECK(of_all("mi250x", 4) < 3.15e-6);
}

TEST_CASE("trees read backwards make a ReduceScatter where links lead both ways") {
  const topology::Topology box = topology::preset("mi250x");
  const auto out = portfolio::shallow_trees(box, Collective::allgather, 1);
  REQUIRE(out);
  const auto in = portfolio::backwards(*out);
  REQUIRE(in);
  CHECK_NOTHROW(schedule::verify(*in));
  CHECK(in->steps == out->steps);
  topology::Topology one_way = box;
  std::erase_if(one_way.links, [](const topology::Link& link) { return link.src == 1 && link.dst == 0; });
  const auto trees = portfolio::shallow_trees(one_way, Collective::allgather, 1);
  REQUIRE(trees);
  CHECK_FALSE(portfolio::backwards(*trees));
}

TEST_CASE("trees beside others take the links that those leave free") {
  const topology::Topology box = topology::preset("z52");
  const auto out = portfolio::shallow_trees(box, Collective::allgather, 2);
  const auto alone = portfolio::shallow_trees(box, Collective::reducescatter, 2);
  const auto beside = portfolio::shallow_trees(box, Collective::reducescatter, 2, &*out);
  REQUIRE(beside);
  CHECK_NOTHROW(schedule::verify(*beside));
  CHECK(portfolio::busiest_of_both(*beside, *out) < 0.99 * portfolio::busiest_of_both(*alone, *out));
}

TEST_CASE("trees take the data of the devices that own it, and leave the links of the others free") {
  for (const char* name : {"dgx1v", "mi250x", "pcie8"}) {
    const topology::Topology box = topology::preset(name);
    std::vector<double> parts(static_cast<std::size_t>(box.ranks), 0);
    parts[0] = 0.75;
    parts[4] = 0.25;
    for (const Collective collective : {Collective::allgather, Collective::reducescatter}) {
      const auto alike = portfolio::shallow_trees(box, collective, 2);
      const auto owned = portfolio::shallow_trees(box, collective, 2, nullptr, parts);
      REQUIRE(owned);
      INFO(info(collective).name << " on " << name);
      CHECK_NOTHROW(schedule::verify(*owned));
      CHECK(portfolio::busiest_of(*owned, parts) < 0.85 * portfolio::busiest_of(*alike, parts));
    }
  }
}

TEST_CASE("devices that nothing joins have no trees") {
  topology::Topology box = topology::preset("dgx1v");
  std::erase_if(box.links, [](const topology::Link& link) { return link.src == 3 || link.dst == 3; });
  CHECK_FALSE(portfolio::shallow_trees(box, Collective::allgather, 1));
}

TEST_CASE("where all devices are neighbours, a root sends every byte once and the others pass it on") {
  const topology::Topology box = topology::preset("dgx2");
  for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
    const auto schedule = portfolio::scattered(box, collective, 5);
    REQUIRE(schedule != nullptr);
    CHECK_NOTHROW(schedule::verify(*schedule));
    CHECK(schedule->steps == 2);
    const auto at_root = std::count_if(schedule->sends.begin(), schedule->sends.end(), [&](const schedule::Send& send) {
      return (collective == Collective::broadcast ? send.src : send.dst) == 5;
    });
    CHECK(at_root == schedule->chunks);
  }
  CHECK(portfolio::scattered(topology::preset("mi250x"), Collective::broadcast, 0) == nullptr);
}

TEST_CASE("chunks of the root's host come in few steps to the ports that they leave by, each as often as before") {
  const topology::Topology box = topology::preset("mi250x");
  std::vector<int> ports(static_cast<std::size_t>(box.ranks));
  std::iota(ports.begin(), ports.end(), 0);
  for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
    const auto schedule = portfolio::root_levels(box, collective, 0).front();
    const auto depths = schedule::sends_from_root(*schedule);
    const std::vector<schedule::ChunkId> before = portfolio::all_turns(*schedule);
    const std::vector<schedule::ChunkId> turns = portfolio::turns_near_ports(*schedule, ports);
    REQUIRE(turns.size() % before.size() == 0);
    REQUIRE(turns.size() % ports.size() == 0);
    for (schedule::ChunkId chunk = 0; chunk < schedule->chunks; ++chunk)
      CHECK(std::count(turns.begin(), turns.end(), chunk) * static_cast<std::ptrdiff_t>(before.size()) ==
            std::count(before.begin(), before.end(), chunk) * static_cast<std::ptrdiff_t>(turns.size()));
    const auto most = [&](const std::vector<schedule::ChunkId>& order) {
      int result = 0;
      for (std::size_t place = 0; place < turns.size(); ++place)
        result = std::max(result, depths[static_cast<std::size_t>(order[place % order.size()])][place % ports.size()]);
      return result;
    };
    INFO(schedule->name << " for " << info(collective).name << ": " << most(turns) << " of " << most(before));
    CHECK(most(turns) < most(before));
  }
}

TEST_CASE("trees that are moved without chance are valid, too, and chance makes no link busier") {
  for (const char* name : {"dgx1v", "z52", "mi250x"}) {
    const topology::Topology box = topology::preset(name);
    const auto moved = portfolio::shallow_trees(box, Collective::allgather, 1, nullptr, {}, portfolio::Search::moves);
    const auto best = portfolio::shallow_trees(box, Collective::allgather, 1);
    REQUIRE(moved);
    REQUIRE(best);
    schedule::verify(*moved);
    CHECK(schedule::busiest_us_per_byte(*best) <= schedule::busiest_us_per_byte(*moved) * (1 + 1e-9));
  }
}
