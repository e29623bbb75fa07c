// The plans of one communicator: verified and lowered, made when a call first needs them.
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
  // With `shared`, which must outlive this object, the ranks of a host share the plans that they make.
  PlanCache(Rank rank, int ranks, SharedPlans* shared = nullptr) : rank_(rank), ranks_(ranks), shared_(shared) {}

  // Returns the choice's plan, or the ring's plan if the choice's planner has no schedule for this collective. If there
  // is a schedule model, the schedule comes from the model. Throws invalid_argument when verification refuses a
  // schedule.
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
