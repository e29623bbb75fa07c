// Proves that lowering kept a schedule's meaning, and that the program's lanes cannot deadlock.
#pragma once

#include <cstdint>

#include "schedule/program.h"

namespace sccl::schedule {

enum class Placement : std::uint8_t { out_of_place, in_place };

struct ProgramCheck {
  int slots = 2;   // of every connection
  int slices = 3;  // more than one, so that slots and scratch are reused
  Placement placement = Placement::out_of_place;
  std::uint64_t seed = 0;  // of the random order in which runnable lanes take turns
};

// Executes the program of all ranks symbolically with bounded connections: places and messages hold (chunk, slice,
// contributions). Lanes are sequential and connections are bounded FIFOs, so the order of turns cannot change whether
// the program finishes. The order can change the outcome of races on places; `seed` varies the order. Throws
// internal_error that names rank, lane and operation when lanes wait for one another, a message is not the expected
// one, a contribution is counted twice, or a rank does not end with the collective's result.
void check_program(const Schedule& schedule, const Program& program, const ProgramCheck& check);

}  // namespace sccl::schedule
