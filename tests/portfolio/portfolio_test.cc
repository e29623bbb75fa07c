// The portfolio holds something for every collective on every kind of machine, and the choice follows the size.
#include <catch2/catch.hpp>
#include <set>

#include "base/error.h"
#include "portfolio/portfolio.h"
#include "topology/presets.h"

using namespace sccl;
using portfolio::Origin;

namespace {

Origin best_origin(const std::vector<portfolio::Candidate>& candidates, std::size_t count) {
  const auto predictions = portfolio::predict(candidates, count, 1, {});
  REQUIRE_FALSE(predictions.empty());
  for (std::size_t i = 1; i < predictions.size(); ++i) CHECK(predictions[i - 1].time_us <= predictions[i].time_us);
  return candidates[predictions.front().candidate].origin;
}

}  // namespace

TEST_CASE("every collective has candidates on a partial machine") {
  const auto part = topology::subset(topology::preset("dgx1v"), std::vector<int>{0, 1, 4, 7});
  for (const Collective collective : {Collective::allreduce, Collective::allgather, Collective::reducescatter,
                                      Collective::broadcast, Collective::reduce, Collective::gather,
                                      Collective::scatter, Collective::alltoall})
    CHECK_FALSE(portfolio::candidates(part, collective, 1).empty());
}

TEST_CASE("the same arguments give the same candidates") {
  const auto topology = topology::subset(topology::preset("dgx1v"), std::vector<int>{0, 1, 2, 3, 6});
  const auto first = portfolio::candidates(topology, Collective::allgather, 0);
  const auto second = portfolio::candidates(topology, Collective::allgather, 0);
  REQUIRE(first.size() == second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].name == second[i].name);
    REQUIRE(first[i].schedule.sends.size() == second[i].schedule.sends.size());
    for (std::size_t s = 0; s < first[i].schedule.sends.size(); ++s) {
      CHECK(first[i].schedule.sends[s].chunk == second[i].schedule.sends[s].chunk);
      CHECK(first[i].schedule.sends[s].dst == second[i].schedule.sends[s].dst);
    }
  }
}

TEST_CASE("on a DGX-1V few bytes take few steps and many bytes take all links") {
  const auto topology = topology::preset("dgx1v");
  const auto candidates = portfolio::candidates(topology, Collective::allgather, 0);
  std::set<Origin> origins;
  for (const auto& candidate : candidates) origins.insert(candidate.origin);
  CHECK(origins.size() == 3);
  CHECK(best_origin(candidates, 64) == Origin::synthesis);
  CHECK(best_origin(candidates, 64 << 20) != Origin::planner);
}

TEST_CASE("a long Broadcast on a DGX-1V goes down trees") {
  const auto candidates = portfolio::candidates(topology::preset("dgx1v"), Collective::broadcast, 0);
  CHECK(best_origin(candidates, 64 << 20) == Origin::trees);
}

TEST_CASE("ranks that nothing joins have no schedule") {
  topology::Topology apart;
  apart.name = "apart";
  apart.ranks = 2;
  CHECK_THROWS_AS(portfolio::candidates(apart, Collective::allreduce, 0), Error);
  CHECK_THROWS_AS(portfolio::candidates(topology::preset("dgx1v"), Collective::broadcast, 8), Error);
}
