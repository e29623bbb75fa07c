// A discrete-event simulation of a Program whose ranks are threads that share cores, as on the host platform: the time
// at which each rank's core runs each operation.
//
// The model. A rank runs one operation at a time, on its core (rank r on core r mod cores). An operation can run when
// its messages have arrived, its departures have a free slot, and the lanes it depends on have advanced far enough. A
// core stays with its present rank while this rank can run, then takes the next rank in turn that can. An operation
// takes `op_us` and, for every byte, one read of each operand and one write of each destination. Slots were written, or
// will be read, by another core, and take longer than the rank's own memory. A message is visible `alpha_us` after it
// was written, and a slot `alpha_us` after it was emptied; both at once between ranks of one core. Yielding costs
// `switch_us` for each rank that is passed over.
//
// Unlike schedule/simulation/simulate.h, which models links but no cores, this simulation models the fused operations
// of a lowered program: a star's operands are added in one pass, and a forwarded value is read once. Cost: O(n log n)
// for n = operations x slices.
#pragma once

#include <cstdint>

#include "schedule/program.h"

namespace sccl::schedule {

struct CoreModel {
  int cores = 1;
  double alpha_us = 0;
  double op_us = 0;
  double switch_us = 0;
  // ns per byte, for the rank's own memory and for slots.
  double read_own = 0;
  double write_own = 0;
  double read_slot = 0;
  double write_slot = 0;
};

struct ProgramRun {
  double bytes = 0;                 // L of schedule/simulation/cost.h
  double slice_bytes = 128 * 1024;  // of a slot
  int slots = 4;                    // of a connection
};

struct ProgramSimulation {
  double time_us = 0;           // until the last rank is done
  std::int64_t operations = 0;  // operations that moved data
  std::int64_t switches = 0;    // times that a core switched to another rank
};

// The program must have passed check_program() with as many slots, and must not use peers' buffers. Throws
// invalid_argument when it uses peers' buffers, when a figure is negative or not finite, or when the simulation would
// be too large.
ProgramSimulation simulate_program(const Schedule& schedule, const Program& program, const CoreModel& model,
                                   const ProgramRun& run);

}  // namespace sccl::schedule
