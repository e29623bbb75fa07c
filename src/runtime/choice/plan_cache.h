// The plans of one communicator: verified and lowered, made when a call first needs them.
//
// A part of a composite's plan is made from the composite, in time linear in what the rank does. Every other plan is
// made for all ranks at once. Ranks of a host may share either (shared_plans.h).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compose/proof/verify.h"
#include "kernels/program/flat_program.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/choice/schedule_model.h"
#include "runtime/choice/shared_plans.h"
#include "schedule/schedule.h"

namespace sccl::runtime {

class PlanCache {
 public:
  // How composites become plans. `expanded`: as the flat schedules that they are, for calls that streams order, which
  // need the programs of all ranks.
  enum class Composites : std::uint8_t { by_rank, expanded };

  // The plans are of some ranks of a communicator: their rank i is its rank members[i].
  struct Within {
    std::vector<Rank> members;  // empty: all
    int ranks = 0;              // of the communicator
  };
  PlanCache(Rank rank, int ranks, Within within) : PlanCache(rank, ranks) { within_ = std::move(within); }
  // With `shared`, which must outlive this object, the ranks of a host share the plans that they make.
  PlanCache(Rank rank, int ranks, SharedResults* shared = nullptr, Composites composites = Composites::by_rank)
      : rank_(rank), ranks_(ranks), shared_(shared), composites_(composites) {}

  // Returns the choice's plan, or the ring's plan if the choice's planner has no schedule for this collective. If there
  // is a schedule model, the schedule comes from the model. Throws invalid_argument when verification refuses a
  // schedule.
  const Plan& find(Collective collective, Rank root, const Choice& choice, ScheduleModel* schedule_model);

 private:
  std::unique_ptr<Plan> make(Collective collective, Rank root, const Choice& choice,
                             ScheduleModel* schedule_model) const;
  bool shares(const ScheduleModel* schedule_model) const;
  PreparedPlan prepare(Collective collective, Rank root, const Choice& choice, ScheduleModel* schedule_model) const;
  PreparedPlan of_composite(compose::Verified composite) const;

  Rank rank_;
  int ranks_;
  SharedResults* shared_;
  Composites composites_;
  Within within_{{}, ranks_};
  std::map<std::tuple<Collective, Rank, std::string, Form>, std::unique_ptr<Plan>> plans_;
};

}  // namespace sccl::runtime
