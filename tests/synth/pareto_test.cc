// The frontier between least latency and least bandwidth: what is found, what is proved, and that it ends in time.
#include "synth/pareto.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <vector>

#include "base/error.h"
#include "schedule/proof/verify.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::synth;

namespace {

Frontier frontier(const topology::Topology& topology, Collective collective, double seconds, int k = -1) {
  Synthesizer synthesizer(topology, collective, 0);
  ParetoOptions options;
  options.k = k;
  return pareto(synthesizer, options,
                Limits{Deadline::in(std::chrono::milliseconds(static_cast<int>(1000 * seconds))), nullptr});
}

const Point* find(const Frontier& frontier, const Size& size) {
  for (const Point& point : frontier.points)
    if (point.size.chunks == size.chunks && point.size.steps == size.steps && point.size.rounds == size.rounds)
      return &point;
  return nullptr;
}

void check_points(const Frontier& frontier) {
  for (const Point& point : frontier.points) {
    schedule::verify(point.schedule);
    CHECK(point.schedule.chunks_per_rank == point.size.chunks);
    CHECK(point.size.steps >= frontier.least_steps);
    CHECK(ratio(point.size.rounds, point.size.chunks) >= frontier.least_rounds_per_chunk);
    for (const Point& other : frontier.points) {
      if (&other == &point) continue;
      const bool no_worse = other.size.steps <= point.size.steps && other.size.chunks <= point.size.chunks &&
                            ratio(other.size.rounds, other.size.chunks) <= ratio(point.size.rounds, point.size.chunks);
      CHECK(!no_worse);
    }
  }
}

}  // namespace

TEST_CASE("both ends of the AllGather frontier of DGX-1 are found and proved") {
  const Frontier found = frontier(topology::preset("dgx1v"), Collective::allgather, 60);
  check_points(found);
  CHECK(found.least_steps == 2);
  CHECK(found.least_rounds_per_chunk == Ratio{7, 6});
  REQUIRE(find(found, {2, 2, 3}) != nullptr);
  CHECK(optimality(*find(found, {2, 2, 3})) == "latency");
  CHECK(find(found, {2, 2, 3})->standing == Standing::proved);
  REQUIRE(find(found, {6, 3, 7}) != nullptr);
  CHECK(optimality(*find(found, {6, 3, 7})) == "bandwidth");
  CHECK(find(found, {6, 3, 7})->standing == Standing::proved);
  // Beats the paper's 3,4,4; fewer chunks than 6,3,7.
  REQUIRE(find(found, {3, 3, 4}) != nullptr);
  CHECK(find(found, {3, 3, 4})->standing == Standing::dominated);
  CHECK(found.open.empty());
}

TEST_CASE("the frontier holds points that dominate rows of the paper") {
  const Frontier broadcast = frontier(topology::preset("dgx1v"), Collective::broadcast, 60, 1);
  check_points(broadcast);
  CHECK(find(broadcast, {7, 3, 3}) != nullptr);
  CHECK(find(broadcast, {13, 4, 4}) != nullptr);
  const Frontier gather = frontier(topology::preset("dgx1v"), Collective::gather, 60);
  check_points(gather);
  REQUIRE(find(gather, {6, 2, 7}) != nullptr);
  CHECK(optimality(*find(gather, {6, 2, 7})) == "both");
}

TEST_CASE("AllReduce is two phases, and its bounds are theirs together") {
  const Frontier found = frontier(topology::preset("z52"), Collective::allreduce, 60);
  check_points(found);
  CHECK(found.least_steps == 8);
  CHECK(found.least_rounds_per_chunk == Ratio{7, 8});
  REQUIRE(find(found, {16, 8, 14}) != nullptr);
  CHECK(optimality(*find(found, {16, 8, 14})) == "both");
}

TEST_CASE("what meets both bounds is proved however small k is") {
  const Frontier found = frontier(topology::preset("z52-full"), Collective::alltoall, 60, 1);
  check_points(found);
  REQUIRE(find(found, {8, 4, 16}) != nullptr);
  CHECK(optimality(*find(found, {8, 4, 16})) == "both");
  CHECK(find(found, {8, 4, 16})->standing == Standing::proved);
}

TEST_CASE("a search that its budget ends returns the best so far, and says so") {
  const Frontier found = frontier(topology::preset("2*dgx1v"), Collective::broadcast, 0.5);
  check_points(found);
  REQUIRE(!found.points.empty());
  CHECK(found.points.front().latency_optimal);
  CHECK(!found.complete);
  CHECK(!found.open.empty());
  CHECK(found.statement().find("best within the budget") != std::string::npos);
}

TEST_CASE("a partial machine gets a frontier with both ends") {
  const std::vector<int> devices{0, 1, 4, 5, 6};
  const topology::Topology part = topology::subset(topology::preset("dgx1v"), devices);
  for (const Collective collective : {Collective::allgather, Collective::allreduce}) {
    const Frontier found = frontier(part, collective, 30);
    check_points(found);
    REQUIRE(!found.points.empty());
    CHECK(found.points.front().latency_optimal);
    CHECK(found.points.back().bandwidth_optimal);
  }
}

TEST_CASE("a topology that is not connected has no frontier") {
  const std::vector<int> apart{0, 6};
  CHECK_THROWS_AS(frontier(topology::subset(topology::preset("dgx1v"), apart), Collective::allgather, 5), Error);
}
