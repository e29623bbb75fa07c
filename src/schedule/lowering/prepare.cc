#include "schedule/lowering/prepare.h"

#include "base/error.h"
#include "schedule/lowering/lower.h"
#include "schedule/proof/check_program.h"
#include "schedule/proof/verify.h"

namespace sccl::schedule {

Program prepare(const Schedule& schedule, int slots) {
  verify(schedule);
  const ProgramCheck check{slots, 2, Placement::in_place, 0};
  try {
    Program program = lower(schedule, Forwarding::unbounded);
    check_program(schedule, program, check);
    return program;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::internal_error) throw;
    // A chain of forwarding operations needs more slots than there are.
    Program program = lower(schedule, Forwarding::within(slots));
    check_program(schedule, program, check);
    return program;
  }
}

}  // namespace sccl::schedule
