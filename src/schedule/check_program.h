// The proof that lowering kept a schedule's meaning and that its lanes cannot deadlock.
#pragma once

#include <cstdint>

#include "schedule/program.h"

namespace sccl::schedule {

enum class Placement : std::uint8_t { out_of_place, in_place };

struct ProgramCheck {
  int slots = 2;   // of every connection
  int slices = 3;  // more than one, so that reuse of slots and scratch is exercised
  Placement placement = Placement::out_of_place;
  std::uint64_t seed = 0;  // of the order in which runnable lanes take turns
};

// Executes the program of all ranks symbolically with bounded connections: places and messages hold (chunk, slice,
// contributions). Lanes are sequential and connections are bounded FIFOs, so whether the program finishes does not
// depend on the order of turns; races on places do, which is what `seed` is for. Throws internal_error naming rank,
// lane and operation when lanes wait for one another, a message is not the one expected, a contribution is counted
// twice, or a rank does not end with what the collective defines.
void check_program(const Schedule& schedule, const Program& program, const ProgramCheck& check);

}  // namespace sccl::schedule
