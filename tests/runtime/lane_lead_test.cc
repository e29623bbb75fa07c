// Lanes that move together wait for one another, and between hosts only for so long.
#include "runtime/host/lanes/lane_lead.h"

#include <catch2/catch.hpp>
#include <cstdint>

using sccl::runtime::LaneLead;

namespace {

void stay_idle(LaneLead& lead, int turns) {
  for (int turn = 0; turn < turns; ++turn) lead.note_turn(false);
}

// The slice that a lane reaches in so many turns while the other lane's message does not come.
std::uint64_t slice_after(LaneLead lead, int turns) {
  constexpr std::uint64_t kSlowest = 3;
  std::uint64_t slice = kSlowest;
  for (int turn = 0; turn < turns; ++turn) {
    const bool goes = lead.may_go(slice, kSlowest);
    if (goes) ++slice;
    lead.note_turn(goes);
  }
  return slice;
}

}  // namespace

TEST_CASE("a lane ahead of the slowest one goes only along with it", "[runtime]") {
  const LaneLead lead(true);
  CHECK(lead.may_go(5, 5));
  CHECK_FALSE(lead.may_go(6, 5));
  CHECK(lead.may_go_along(6, 5));
  CHECK_FALSE(lead.may_go_along(7, 5));
}

TEST_CASE("within one host a lane never goes further alone", "[runtime]") {
  CHECK(slice_after(LaneLead(false), 100 * LaneLead::kPatientTurns) == 4);
}

TEST_CASE("between hosts a lane goes on alone when nothing has moved for long", "[runtime]") {
  LaneLead lead(true);
  CHECK(slice_after(lead, LaneLead::kPatientTurns) == 4);
  stay_idle(lead, LaneLead::kPatientTurns - 1);
  CHECK_FALSE(lead.may_go(9, 5));
  stay_idle(lead, 1);
  CHECK(lead.may_go(9, 5));
  CHECK_FALSE(lead.may_go_along(6, 5));  // it goes anyway, and must not go twice in one turn
  stay_idle(lead, 1'000'000);
  CHECK(lead.may_go(9, 5));
}

TEST_CASE("a message that comes makes lanes wait for one another again", "[runtime]") {
  LaneLead lead(true);
  stay_idle(lead, LaneLead::kPatientTurns);
  lead.note_turn(true);
  CHECK_FALSE(lead.may_go(6, 5));
  stay_idle(lead, LaneLead::kPatientTurns - 1);
  CHECK_FALSE(lead.may_go(6, 5));
}
