// A plan is the same for all ranks but for their part of the program, and making one takes time that grows with the
// ranks squared. So where there are many ranks, the first that needs a plan makes it for all of them, verified as ever,
// and the others take their parts from it:
//
//   first rank that comes to an entry       others
//   key = the plan's (compare and swap)
//   makes the plan                           wait, look whether the maker lives
//   descriptor, bytes; state = made          read state; map the maker's descriptor, copy their part
//
// The maker waits for nobody, so that the others need not wait for ever. Where the entries are used up, the maker has
// ended or the descriptor cannot be opened, a rank makes the plan for itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "kernels/program/flat_program.h"
#include "runtime/control/state/plan_board.h"
#include "schedule/schedule.h"

namespace sccl::runtime {

struct Plan {
  Plan(schedule::Schedule made, kernels::FlatProgram part)
      : schedule(std::move(made)), program(std::move(part)), may_lend(program.may_lend()) {}

  schedule::Schedule schedule;  // where another rank made the plan, without its topology
  kernels::FlatProgram program;
  bool may_lend;  // program.may_lend()
};

// Verified and lowered.
struct PreparedPlan {
  schedule::Schedule schedule;
  std::function<kernels::FlatProgram(Rank)> part;
};

class SharedPlans {
 public:
  // From so many ranks on. Fewer plan faster than they wait for one another.
  static constexpr int kLeastRanks = 16;

  struct Host {
    PlanBoard& board;
    Rank rank;
    std::function<bool(Rank)> has_ended;
    // Another rank's descriptor, opened here; invalid where the system does not permit that.
    std::function<FileDescriptor(Rank, int)> open;
  };
  explicit SharedPlans(Host host) : host_(std::move(host)) {}

  using Make = std::function<PreparedPlan()>;
  // This rank's. `name` says which plan it is, the same at all ranks. Throws what `make` throws.
  std::unique_ptr<Plan> find(const std::string& name, const Make& make);

 private:
  std::unique_ptr<Plan> make_for_all(PlanBoard::Entry& entry, const Make& make);
  std::unique_ptr<Plan> take(const PlanBoard::Entry& entry) const;
  bool wait_for(const PlanBoard::Entry& entry) const;
  std::unique_ptr<Plan> own_part(const Make& make) const;

  const Host host_;
  std::vector<FileDescriptor> made_;  // the others open them through /proc
};

}  // namespace sccl::runtime
