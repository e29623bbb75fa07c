// The verified, lowered programs of one communicator, made when a call first needs them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/program/flat_program.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/choice/schedule_model.h"
#include "runtime/choice/shared_plans.h"
#include "schedule/schedule.h"

namespace sccl::runtime {

class PlanCache {
 public:
  // With `shared`, which must outlive it, the ranks of a host make plans for one another.
  PlanCache(Rank rank, int ranks, SharedPlans* shared = nullptr) : rank_(rank), ranks_(ranks), shared_(shared) {}

  // The choice's plan, or where its planner has none for this collective, the ring's; a schedule model, when given,
  // knows the schedule. Throws invalid_argument when verification refuses a schedule.
  const Plan& find(Collective collective, Rank root, const Choice& choice, ScheduleModel* schedule_model);

 private:
  std::unique_ptr<Plan> make(Collective collective, Rank root, const Choice& choice,
                             ScheduleModel* schedule_model) const;
  PreparedPlan prepare(Collective collective, Rank root, const Choice& choice, ScheduleModel* schedule_model) const;

  Rank rank_;
  int ranks_;
  SharedPlans* shared_;
  std::map<std::tuple<Collective, Rank, std::string, Form>, std::unique_ptr<Plan>> plans_;
};

}  // namespace sccl::runtime
