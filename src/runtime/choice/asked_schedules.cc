#include "runtime/choice/asked_schedules.h"

#include "planners/planners.h"

namespace sccl::runtime {

bool AskedSchedules::can_serve(const std::string& algorithm, Collective collective, Rank root, int ranks,
                               const Settings& settings, ScheduleModel* model) {
  const Rank asked_root = info(collective).rooted ? root : 0;
  const auto [known, is_new] = known_.try_emplace({algorithm, collective, asked_root}, false);
  if (!is_new) return known->second;
  if (model != nullptr) {
    Settings asked = settings;
    asked.algorithms = algorithm;
    const auto ranked = model->ranking(collective, asked_root, 1, asked);
    known->second = !ranked.empty() && ranked.front().asked;
  } else if (const planners::Planner* const planner = planners::find(algorithm); planner != nullptr) {
    known->second = planner->plan(topology::host(ranks), collective, asked_root).has_value();
  }
  return known->second;
}

}  // namespace sccl::runtime
