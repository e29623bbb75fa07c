// The part of one rank, made from a composite alone, is the rank's part of the flat form: so is its program, which
// lowering makes of the part.
#include <algorithm>
#include <catch2/catch.hpp>
#include <tuple>

#include "clusters.h"
#include "compose/lowering/expand.h"
#include "programs.h"
#include "schedule/proof/check_program.h"

using namespace sccl;

namespace {

using schedule::Forwarding;
using schedule::RankPart;

// Lowering asks of arrivals alone whether they complete a sum.
bool is_same(const RankPart::Message& a, const RankPart::Message& b) {
  const bool arrives = a.direction == schedule::Direction::incoming;
  return std::tie(a.step, a.direction, a.chunk, a.peer, a.kind) ==
             std::tie(b.step, b.direction, b.chunk, b.peer, b.kind) &&
         (!arrives || a.completes == b.completes);
}

bool is_same(const RankPart& a, const RankPart& b) {
  return a.collective == b.collective && a.ranks == b.ranks && a.root == b.root && a.root_lead == b.root_lead &&
         a.rank == b.rank && a.chunks == b.chunks &&
         std::ranges::equal(a.messages, b.messages,
                            [](const auto& one, const auto& other) { return is_same(one, other); });
}

void check_same(const compose::Composite& composite) {
  const compose::RankParts parts{compose::Verified(composite)};
  for (const RankPart& of_flat : schedule::parts_of(compose::expand(composite)))
    REQUIRE(is_same(parts.of(of_flat.rank), of_flat));
}

}  // namespace

TEST_CASE("a rank's program made by levels is its part of the flat program") {
  for (const topology::Topology& machine : clusters()) for_every_composite(machine, check_same);
}

TEST_CASE("the same for 16 to 64 ranks", "[slow]") {
  for (const char* name : {"2*mi250x", "4*dgx1v", "8*dgx-a100", "4*dgx2", "16*nvpairs4", "11*host:4", "17*host:2"})
    for_every_composite_of(40'000, topology::preset(name), check_same);
}

TEST_CASE("programs made by levels end with the right result, with as many slots as they were made for") {
  for (const topology::Topology& machine :
       {topology::preset("2*nvpairs4"), topology::preset("2*pcie4"), uneven(), dealt(), racks(2, 2, 2), one_nic()})
    for_every_composite_of(10'000, machine, [](const compose::Composite& composite) {
      const compose::RankParts parts{compose::Verified(composite)};
      const schedule::Schedule flat = compose::expand(composite);
      for (const int slots : {1, 2, 3}) {
        const schedule::Program program = programs(parts, Forwarding::within(slots));
        for (const auto placement : {schedule::Placement::out_of_place, schedule::Placement::in_place})
          CHECK_NOTHROW(schedule::check_program(flat, program, {slots, 2, placement, 7}));
      }
    });
}

TEST_CASE("programs made by levels of 16 to 64 ranks end with the right result", "[slow]") {
  for (const char* name : {"2*mi250x", "4*dgx1v", "4*dgx2", "16*nvpairs4", "11*host:4", "17*host:2"})
    for_every_composite_of(20'000, topology::preset(name), [](const compose::Composite& composite) {
      const compose::RankParts parts{compose::Verified(composite)};
      CHECK_NOTHROW(schedule::check_program(compose::expand(composite), programs(parts, Forwarding::within(3)),
                                            {3, 2, schedule::Placement::in_place, 7}));
    });
}
