// A discrete-event simulation of a Program on ranks that are threads and share cores, as on the host platform: which
// rank's core does which operation when?
//
// The model. A rank does one operation at a time, on its core (rank r on core r mod cores). An operation runs when its
// messages have arrived, its departures have a free slot and the lanes it depends on are far enough; a core goes on
// with the rank it works for while that rank can go on, then with the next one in turn that can. An operation takes
// `op_us` and, for every byte, one read of each operand and one write of each destination: what lies in slots was
// written, or will be read, by another core, and takes longer than what is the rank's own. A message is seen `alpha_us`
// after it was written, a slot likewise after it was emptied; between ranks of one core nothing has to travel. Yielding
// costs `switch_us` for each rank that is passed over.
//
// Other than schedule/simulate.h, which knows links and no cores, this sees what lowering has fused: a star's operands
// are added in one pass, and what is passed on is read once. Cost: O(n log n) for n = operations x slices.
#pragma once

#include <cstdint>

#include "schedule/program.h"

namespace sccl::schedule {

struct CoreModel {
  int cores = 1;
  double alpha_us = 0;
  double op_us = 0;
  double switch_us = 0;
  // ns for a byte: of the rank's own memory, and of slots.
  double read_own = 0;
  double write_own = 0;
  double read_slot = 0;
  double write_slot = 0;
};

struct ProgramRun {
  double bytes = 0;                 // L of schedule/cost.h
  double slice_bytes = 128 * 1024;  // of a slot
  int slots = 4;                    // of a connection
};

struct ProgramSimulation {
  double time_us = 0;           // until the last rank is done
  std::int64_t operations = 0;  // that moved something
  std::int64_t switches = 0;    // of cores, to another rank
};

// The program must have passed check_program() with as many slots and use no peer's buffers. Throws invalid_argument
// when it does use them, a figure is negative or not finite, or it is more than is simulated.
ProgramSimulation simulate_program(const Schedule& schedule, const Program& program, const CoreModel& model,
                                   const ProgramRun& run);

}  // namespace sccl::schedule
