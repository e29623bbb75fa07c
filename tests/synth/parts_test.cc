// The parts that synthesis stands on: bounds, groups of symmetries, schedules without a search.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "schedule/proof/verify.h"
#include "synth/bounds.h"
#include "synth/flooding.h"
#include "synth/symmetry.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::synth;

namespace {

using enum Collective;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Problem problem(const char* machine, Collective collective, int pieces = 1) {
  const topology::Topology topology = topology::preset(machine);
  return make_problem(topology, collective, 0, pieces * chunks_per_piece(collective, topology.ranks));
}

void check_routed(const char* machine, Collective collective, int pieces, const Routed& routed) {
  const topology::Topology topology = topology::preset(machine);
  const Problem instance = problem(machine, collective, pieces);
  std::vector<schedule::Send> sends;
  for (const TimedHop& one : routed.sends) {
    const Hop hop = instance.hops[at(one.hop)];
    sends.push_back({one.chunk, hop.src, hop.dst, one.step, schedule::SendKind::copy});
  }
  const schedule::Schedule schedule = schedule::make_schedule(
      "parts", collective, 0, topology, pieces * chunks_per_piece(collective, topology.ranks), std::move(sends));
  schedule::verify(schedule);
  CHECK(schedule.steps == routed.steps);
  CHECK(std::accumulate(schedule.rounds.begin(), schedule.rounds.end(), 0) == routed.rounds);
}

}  // namespace

TEST_CASE("cuts bound bandwidth as the paper and pencil do") {
  const auto bound = [](const char* machine, Collective collective) {
    return Bounds(problem(machine, collective)).least_rounds_per_piece();
  };
  CHECK(bound("dgx1v", allgather) == Ratio{7, 6});
  CHECK(bound("dgx1v", broadcast) == Ratio{1, 6});
  CHECK(bound("dgx1v", alltoall) == Ratio{8, 3});  // 16 chunks each way over the 6 lanes between the quads
  CHECK(bound("z52", allgather) == Ratio{7, 2});
  CHECK(bound("z52", alltoall) == Ratio{8, 1});
  CHECK(bound("dgx2", allgather) == ratio(15, 6));
  CHECK(bound("pcie8", alltoall) == Ratio{16, 1});
  // Shared by both directions: 32 chunks cross two sets of one lane.
  CHECK(bound("z52-full", alltoall) == Ratio{16, 1});
}

TEST_CASE("a bound that refutes nothing feasible grows no weaker with more rounds or steps") {
  Bounds bounds(problem("dgx1v", allgather));
  for (int pieces = 1; pieces <= 6; ++pieces)
    for (int steps = 2; steps <= 5; ++steps) {
      bool refuted = true;
      for (int rounds = steps; rounds <= 10; ++rounds) {
        const bool now = bounds.refutes(pieces, steps, rounds);
        CHECK((refuted || !now));
        CHECK((!now || steps == 2 || bounds.refutes(pieces, steps - 1, rounds)));
        refuted = now;
      }
    }
}

TEST_CASE("ranges of rounds leave room for schedules that exist") {
  Bounds bounds(problem("dgx1v", allgather));
  REQUIRE(!bounds.refutes(6, 3, 7));
  const std::vector<RoundsRange> ranges = bounds.ranges(6, 3, 7);
  REQUIRE(ranges.size() == 3);
  int least = 0;
  int most = 0;
  for (const RoundsRange& range : ranges) {
    CHECK(range.least >= 1);
    CHECK(range.most >= range.least);
    least += range.least;
    most += range.most;
  }
  CHECK(least <= 7);
  CHECK(most >= 7);
}

TEST_CASE("actions map hops, capacities and chunks onto one another") {
  for (const char* machine : {"dgx1v", "z52", "dgx2", "z52-full", "2*dgx1v", "nvpairs4", "pcie8"})
    for (const Collective collective : {allgather, alltoall, broadcast, gather}) {
      INFO(machine << " " << info(collective).name);
      const Problem instance = problem(machine, collective, 4);
      const std::vector<Action> all = actions(instance, groups(instance));
      REQUIRE(!all.empty());
      CHECK(all.back().group.order() == 1);
      for (const Action& action : all) {
        std::set<std::pair<int, int>> seen;
        for (const Action::Orbit& orbit : action.orbits) {
          CHECK(static_cast<int>(orbit.images.size()) == action.group.order());
          for (const Action::Piece& piece : orbit.images) CHECK(seen.emplace(piece.commodity, piece.piece).second);
          // An element takes a chunk to one whose source is where it takes the source.
          for (std::size_t g = 0; g < orbit.images.size(); ++g) {
            const Commodity& from = instance.commodities[at(orbit.representative.commodity)];
            const Commodity& to = instance.commodities[at(orbit.images[g].commodity)];
            CHECK(to.source == action.group.ranks[g][at(from.source)]);
          }
        }
        CHECK(static_cast<int>(seen.size()) == instance.chunks());
        for (std::size_t g = 0; g < action.hops.size(); ++g)
          for (std::size_t c = 0; c < instance.capacities.size(); ++c) {
            const Capacity& image = instance.capacities[at(action.capacities[g][c])];
            CHECK(image.lanes == instance.capacities[c].lanes);
            CHECK(image.terms.size() == instance.capacities[c].terms.size());
          }
      }
    }
}

TEST_CASE("the groups that speed up the machines of the paper are found") {
  const auto largest = [](const char* machine, Collective collective, int pieces) {
    const Problem instance = problem(machine, collective, pieces);
    return actions(instance, groups(instance)).front().group.order();
  };
  CHECK(largest("dgx1v", allgather, 1) == 4);
  CHECK(largest("dgx1v", alltoall, 1) == 4);
  CHECK(largest("z52", allgather, 1) == 8);
  CHECK(largest("dgx2", allgather, 1) == 16);
  CHECK(largest("2*dgx1v", allgather, 1) == 8);
  CHECK(largest("dgx2", broadcast, 15) == 15);
}

TEST_CASE("shortest paths and flooding are schedules on every preset") {
  for (const topology::Preset& preset : topology::presets()) {
    const std::string name(preset.name);
    for (const Collective collective : {allgather, broadcast, alltoall, gather, scatter})
      for (const int pieces : {1, 3}) {
        INFO(name << " " << info(collective).name << " " << pieces);
        const Problem instance = problem(name.c_str(), collective, pieces);
        const Routed direct = shortest_paths(instance);
        check_routed(name.c_str(), collective, pieces, direct);
        CHECK(direct.steps == Bounds(instance).least_steps());
        const std::optional<Routed> flooded = flooding(instance);
        REQUIRE(flooded);
        check_routed(name.c_str(), collective, pieces, *flooded);
        CHECK(flooded->rounds == flooded->steps);
      }
  }
}
