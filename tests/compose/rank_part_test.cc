// The program of one rank, made from a composite alone, is the rank's part of the flat form's program.
#include <algorithm>
#include <catch2/catch.hpp>

#include "clusters.h"
#include "compose/lowering/expand.h"
#include "programs.h"
#include "schedule/proof/check_program.h"

using namespace sccl;

namespace sccl::schedule {

bool operator==(const Access& a, const Access& b) {
  return a.via == b.via && a.connection == b.connection && a.place == b.place;
}
bool operator==(const Dependency& a, const Dependency& b) {
  return a.lane == b.lane && a.op == b.op && a.distance == b.distance;
}
bool operator==(const Op& a, const Op& b) {
  return a.kind == b.kind && a.chunk == b.chunk && a.operands == b.operands && a.destinations == b.destinations &&
         a.completes == b.completes && a.dependencies == b.dependencies;
}
bool operator==(const Lane& a, const Lane& b) { return a.order == b.order && a.ops == b.ops; }
bool operator==(const RankProgram& a, const RankProgram& b) {
  return a.connections == b.connections && a.lanes == b.lanes && a.scratch_slots == b.scratch_slots;
}

}  // namespace sccl::schedule

namespace {

using schedule::Forwarding;

void check_same(const compose::Composite& composite) {
  const compose::RankParts parts{compose::Verified(composite)};
  const schedule::Schedule flat = compose::expand(composite);
  for (const Forwarding forwarding : {Forwarding::within(3), Forwarding::off}) {
    const schedule::Program whole = schedule::lower(flat, forwarding);
    const schedule::Program single = programs(parts, forwarding);
    for (std::size_t rank = 0; rank < whole.ranks.size(); ++rank) REQUIRE(whole.ranks[rank] == single.ranks[rank]);
  }
}

// Of many ranks composites differ in the number of frames alone: those with fewer of them show as much.
bool repeats_frames(const compose::Composite& composite) { return composite.ranks() > 32 && composite.frames > 4; }

}  // namespace

TEST_CASE("a rank's program made by levels is its part of the flat program") {
  for (const topology::Topology& machine : clusters()) for_every_composite(machine, check_same);
}

TEST_CASE("the same for 16 to 64 ranks", "[slow]") {
  for (const char* name : {"2*mi250x", "4*dgx1v", "8*dgx-a100", "4*dgx2", "16*nvpairs4", "11*host:4", "17*host:2"})
    for_every_composite(topology::preset(name), [](const compose::Composite& composite) {
      if (!repeats_frames(composite)) check_same(composite);
    });
}

TEST_CASE("programs made by levels end with the right result, with as many slots as they were made for") {
  for (const topology::Topology& machine :
       {topology::preset("2*nvpairs4"), topology::preset("2*pcie4"), uneven(), dealt(), racks(2, 2, 2), one_nic()})
    for_every_composite(machine, [](const compose::Composite& composite) {
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
    for_every_composite(topology::preset(name), [](const compose::Composite& composite) {
      if (repeats_frames(composite)) return;
      const compose::RankParts parts{compose::Verified(composite)};
      CHECK_NOTHROW(schedule::check_program(compose::expand(composite), programs(parts, Forwarding::within(3)),
                                            {3, 2, schedule::Placement::in_place, 7}));
    });
}
