// Whether an algorithm that a program asks for with a single call can serve it. The same on all ranks.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "runtime/choice/schedule_model.h"
#include "runtime/settings/settings.h"

namespace sccl::runtime {

class AskedSchedules {
 public:
  // `model` of the links that are named, or null. It must outlive the call only.
  bool can_serve(const std::string& algorithm, Collective collective, Rank root, int ranks, const Settings& settings,
                 ScheduleModel* model);

 private:
  std::map<std::tuple<std::string, Collective, Rank>, bool> known_;
};

}  // namespace sccl::runtime
