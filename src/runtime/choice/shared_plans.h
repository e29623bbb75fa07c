// Plans that one rank of a host makes for all. A plan is the same for all ranks except for their parts of the program,
// and the time to make a plan grows with the square of the ranks. So with many ranks, the first rank that needs a plan
// makes it for all ranks, verified as always. The other ranks take their parts from it:
//
//   first rank at an entry                   other ranks
//   key = the plan's (compare and swap)
//   makes the plan                           wait, check whether the maker lives
//   descriptor, bytes; state = made          read state; map the maker's descriptor, copy their part
//
// The maker waits for no rank, so the others do not wait for ever. If no entry is free, the maker has ended, or the
// descriptor cannot be opened, a rank makes the plan for itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "kernels/program/flat_program.h"
#include "runtime/choice/plan.h"
#include "runtime/control/state/plan_board.h"
#include "schedule/schedule.h"

namespace sccl::runtime {

// A plan before it is divided among ranks: verified and lowered.
struct PreparedPlan {
  schedule::Schedule schedule;
  std::function<kernels::FlatProgram(Rank)> part;
};

class SharedPlans {
 public:
  // Plans are shared from this many ranks on. Fewer ranks make their plans faster than they would wait.
  static constexpr int kLeastRanks = 16;

  struct Host {
    PlanBoard& board;
    Rank rank;
    std::function<bool(Rank)> has_ended;
    // Opens another rank's descriptor in this process. Invalid if the system does not permit that.
    std::function<FileDescriptor(Rank, int)> open;
  };
  explicit SharedPlans(Host host) : host_(std::move(host)) {}

  using Make = std::function<PreparedPlan()>;
  // Returns this rank's plan. `name` identifies the plan, equally at all ranks. Throws the exceptions of `make`.
  std::unique_ptr<Plan> find(const std::string& name, const Make& make);

 private:
  std::unique_ptr<Plan> make_for_all(PlanBoard::Entry& entry, const Make& make);
  std::unique_ptr<Plan> take(const PlanBoard::Entry& entry) const;
  bool wait_for(const PlanBoard::Entry& entry) const;
  std::unique_ptr<Plan> own_part(const Make& make) const;

  const Host host_;
  std::vector<FileDescriptor> made_;  // kept open, because the other ranks open them through /proc
};

}  // namespace sccl::runtime
