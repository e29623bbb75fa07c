// Every planner on every collective: the schedule verifies, and its lowered programs keep its meaning.
#include "planners/planners.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "schedule/lowering/lower.h"
#include "schedule/lowering/prepare.h"
#include "schedule/proof/check_program.h"
#include "schedule/proof/verify.h"
#include "topology/presets.h"

using namespace sccl;

namespace {

std::vector<Collective> collectives() {
  return {Collective::allreduce, Collective::allgather, Collective::reducescatter, Collective::broadcast,
          Collective::reduce,    Collective::alltoall,  Collective::gather,        Collective::scatter};
}

template <typename Check>
void for_every_plan(Check&& check) {
  for (const planners::Planner& planner : planners::table())
    for (const int ranks : {2, 3, 4, 5, 7, 8})
      for (const Collective collective : collectives())
        for (const Rank root : {0, ranks - 1}) {
          if (root != 0 && !info(collective).rooted) continue;
          const auto schedule = planner.plan(topology::host(ranks), collective, root);
          if (!schedule) continue;
          INFO(planner.name << " " << info(collective).name << " ranks " << ranks << " root " << root);
          check(*schedule);
        }
}

}  // namespace

TEST_CASE("every planner's schedule is verified") {
  for_every_plan([](const schedule::Schedule& schedule) { CHECK_NOTHROW(schedule::verify(schedule)); });
}

static void check_all_ways(const schedule::Schedule& schedule, const schedule::Program& program, int slots) {
  for (const auto placement : {schedule::Placement::out_of_place, schedule::Placement::in_place})
    for (const std::uint64_t seed : {1u, 2u})
      CHECK_NOTHROW(schedule::check_program(schedule, program, {slots, 3, placement, seed}));
}

TEST_CASE("prepared programs keep the schedule's meaning and do not deadlock with the slots they were prepared for") {
  for_every_plan([](const schedule::Schedule& schedule) {
    for (const int slots : {1, 2, 4}) check_all_ways(schedule, schedule::prepare(schedule, slots), slots);
  });
}

TEST_CASE("without forwarding one slot a connection suffices") {
  for_every_plan([](const schedule::Schedule& schedule) {
    check_all_ways(schedule, schedule::lower(schedule, schedule::Forwarding::off), 1);
  });
}

TEST_CASE("direct programs keep the schedule's meaning") {
  int served = 0;
  for_every_plan([&](const schedule::Schedule& schedule) {
    const auto program = schedule::lower_direct(schedule);
    if (!program) return;
    ++served;
    for (const auto placement : {schedule::Placement::out_of_place, schedule::Placement::in_place})
      for (const std::uint64_t seed : {1u, 2u, 3u})
        CHECK_NOTHROW(schedule::check_program(schedule, *program, {1, 2, placement, seed}));
  });
  CHECK(served >= 8 * 6);
}

TEST_CASE("cut chunks keep their owners, and their direct programs their meaning") {
  for_every_plan([](const schedule::Schedule& schedule) {
    const schedule::Schedule cut = schedule::divided(schedule, 3);
    CHECK(cut.chunks == 3 * schedule.chunks);
    CHECK_NOTHROW(schedule::verify(cut));
    if (const auto program = schedule::lower_direct(cut)) check_all_ways(cut, *program, 1);
  });
}

TEST_CASE("in direct programs every rank moves its share of what is only copied") {
  constexpr int kRanks = 4;
  const auto moves = [](const schedule::Program& program, Rank rank) {
    int written = 0;  // chunks, over all destinations
    int read = 0;
    for (const schedule::Op& op : program.ranks[static_cast<std::size_t>(rank)].lanes.front().ops) {
      if (op.kind != schedule::OpKind::move) continue;
      ++read;
      for (const schedule::Access& destination : op.destinations)
        written += destination.via == schedule::Via::remote || rank != 0;
    }
    return std::pair(read, written);
  };
  const auto gather = schedule::lower_direct(*planners::one_hop(topology::host(kRanks), Collective::allgather, 0));
  for (Rank rank = 1; rank < kRanks; ++rank) CHECK(moves(*gather, rank) == std::pair(1, kRanks));
  const auto parts = schedule::divided(*planners::one_hop(topology::host(kRanks), Collective::broadcast, 0), kRanks);
  const auto broadcast = schedule::lower_direct(parts);
  // The root gives one part to each of three, and each of them fetches the three others.
  CHECK(moves(*broadcast, 0).second == kRanks - 1);
  for (Rank rank = 1; rank < kRanks; ++rank) CHECK(moves(*broadcast, rank) == std::pair(kRanks - 1, kRanks - 1));
}

TEST_CASE("planners have the traits that their rows say") {
  std::set<planners::Family> families;
  for (const planners::Planner& planner : planners::table()) {
    INFO(planner.name);
    CHECK(families.insert(planner.family).second);
    CHECK(&planners::first_of(planner.family) == &planner);
    CHECK(planners::belongs(planner.name, planner.family));
    for (int ranks = 2; ranks <= 8; ++ranks)
      for (const Collective collective : collectives()) {
        const auto schedule = planner.plan(topology::host(ranks), collective, 0);
        if (!schedule) continue;
        INFO(info(collective).name << " of " << ranks << " ranks");
        // Where `count` counts the whole buffer of a rank.
        const bool whole = collective == Collective::allreduce || collective == Collective::reduce ||
                           collective == Collective::broadcast || collective == Collective::allgather ||
                           collective == Collective::gather;
        if (whole) CHECK(planner.parts(collective, ranks) == schedule->chunks_per_rank);
        if (planner.family == planners::Family::star) CHECK(schedule::lower_direct(*schedule).has_value());
      }
  }
  CHECK_FALSE(planners::belongs("synth 6/3/7", planners::Family::star));
}

TEST_CASE("the ring serves every collective at every rank count") {
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (const Collective collective : collectives())
      CHECK(planners::ring(topology::host(ranks), collective, ranks - 1).has_value());
}

TEST_CASE("a ring AllReduce is one lane a rank") {
  const auto schedule = planners::ring(topology::host(5), Collective::allreduce, 0);
  for (const auto& rank : schedule::lower(*schedule, schedule::Forwarding::unbounded).ranks) {
    CHECK(rank.lanes.size() == 1);
    CHECK(rank.scratch_slots == 0);
  }
}

TEST_CASE("in two hops no rank receives or sends more than the buffer once") {
  for (const int ranks : {3, 4, 9, 40})
    for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
      const auto schedule = planners::two_hop(topology::host(ranks), collective, ranks / 2);
      REQUIRE(schedule);
      CHECK_NOTHROW(schedule::verify(*schedule));
      std::vector<int> sent(static_cast<std::size_t>(ranks), 0);
      std::vector<int> received(sent);
      for (const schedule::Send& send : schedule->sends) {
        ++sent[static_cast<std::size_t>(send.src)];
        ++received[static_cast<std::size_t>(send.dst)];
      }
      CHECK(*std::ranges::max_element(sent) == schedule->chunks);
      CHECK(*std::ranges::max_element(received) == schedule->chunks);
    }
  CHECK_FALSE(planners::two_hop(topology::host(2), Collective::broadcast, 0));
  CHECK_FALSE(planners::two_hop(topology::host(4), Collective::allreduce, 0));
}

TEST_CASE("a planner returns nothing where a link is missing") {
  auto topology = topology::host(4);
  std::erase_if(topology.links, [](const topology::Link& link) { return link.src == 0 && link.dst == 1; });
  CHECK(planners::ring(topology, Collective::allreduce, 0).has_value());  // another way round
  CHECK_FALSE(planners::one_hop(topology, Collective::allreduce, 0).has_value());
  CHECK(planners::binomial(topology, Collective::broadcast, 1).has_value());
}

TEST_CASE("on every preset each planner gives a right schedule or none, and shortest paths always serve") {
  for (const topology::Preset& preset : topology::presets()) {
    const topology::Topology topology = topology::preset(preset.name);
    for (const planners::Planner& planner : planners::table())
      for (const Collective collective : collectives()) {
        INFO(preset.name << " " << planner.name << " " << info(collective).name);
        const auto schedule = planner.plan(topology, collective, topology.ranks - 1);
        if (schedule) schedule::verify(*schedule);
        if (planner.name == "shortest") CHECK(schedule.has_value());
      }
  }
}

TEST_CASE("a ring follows the links, and the widest of them") {
  for (const char* name : {"dgx1v", "dgx1p", "z52", "mi250x", "pcie8"}) {
    INFO(name);
    CHECK(planners::ring(topology::preset(name), Collective::allgather, 0).has_value());
  }
  const auto doubled = planners::ring(topology::preset("dgx1v"), Collective::allgather, 0);
  for (const auto& send : doubled->sends) CHECK(topology::preset("dgx1v").lanes(send.src, send.dst) == 2);
}

TEST_CASE("a path of ranks has no ring but shortest paths") {
  topology::Topology path;
  path.name = "path";
  path.ranks = 4;
  for (Rank rank = 0; rank + 1 < 4; ++rank) {
    path.links.push_back({rank, rank + 1, 1, 1.0, 1.0, topology::LinkClass::nvlink});
    path.links.push_back({rank + 1, rank, 1, 1.0, 1.0, topology::LinkClass::nvlink});
  }
  CHECK_FALSE(planners::ring(path, Collective::allreduce, 0).has_value());
  const auto schedule = planners::shortest(path, Collective::allreduce, 0);
  REQUIRE(schedule.has_value());
  schedule::verify(*schedule);
  path.links.resize(4);  // ranks 2 and 3 apart from 0 and 1
  path.links.pop_back();
  CHECK_FALSE(planners::shortest(path, Collective::allreduce, 0).has_value());
}
