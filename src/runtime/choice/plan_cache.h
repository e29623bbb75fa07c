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
#include "schedule/schedule.h"

namespace sccl::runtime {

struct Plan {
  schedule::Schedule schedule;
  kernels::FlatProgram program;
  bool may_lend = false;  // program.may_lend()
};

class PlanCache {
 public:
  PlanCache(Rank rank, int ranks) : rank_(rank), ranks_(ranks) {}

  // The choice's plan, or where its planner has none for this collective, the ring's; a schedule model, when given,
  // knows the schedule. Throws invalid_argument when verification refuses a schedule.
  const Plan& find(Collective collective, Rank root, const Choice& choice, ScheduleModel* schedule_model);

 private:
  std::unique_ptr<Plan> make(Collective collective, Rank root, const Choice& choice,
                             ScheduleModel* schedule_model) const;

  Rank rank_;
  int ranks_;
  std::map<std::tuple<Collective, Rank, std::string, Form>, std::unique_ptr<Plan>> plans_;
};

}  // namespace sccl::runtime
