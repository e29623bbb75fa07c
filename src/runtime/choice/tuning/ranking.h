// The choices that can serve the calls of a size class, best first as far as predicted without measurement.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/choice/dispatcher.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/choice/schedule_model.h"
#include "runtime/choice/tuning/learned.h"
#include "runtime/choice/tuning/miad.h"
#include "runtime/choice/tuning/size_class.h"

namespace sccl::runtime {

struct Ranked {
  Choice choice;
  double predicted_us = 0;  // 0: no prediction
  std::string why;
};

struct Question {
  Collective collective = Collective::allreduce;
  Rank root = 0;
  int ranks = 2;
  SizeClass size;
};

// The most entrants of an autotuner, the first included.
inline constexpr std::size_t kMostEntrants = 5;

// On the host's own links. The first is the learned choice (SCCL_DISPATCH=learned), or else the result of choose().
// Other planners and protocols follow in the simulator's order, up to kMostEntrants. All comply with the settings.
std::vector<Ranked> rank_on_host(const Question& question, const Settings& settings, Reach reach,
                                 const LearnedDispatcher& learned = {});

// On links that the user has named: the learned choice, if these links have a candidate of that name, then the others
// in the simulator's order.
std::vector<Ranked> rank_on_links(const Question& question, const Settings& settings, ScheduleModel& schedule_model,
                                  const LearnedDispatcher& learned = {});

// On devices. The first is the result of choose_on_device; the others follow as in rank_on_host.
std::vector<Ranked> rank_on_device(const Question& question, const Settings& settings, DeviceReach reach);

// Removes every choice that sums in another order than the first choice, and so may give other bits.
void keep_same_sums(std::vector<Ranked>& ranked, const Question& question, PlanCache& plans,
                    ScheduleModel* schedule_model);
// A schedule of one hop between kernels that use one another's buffers in place. Requires links between all ranks, and
// a predicted time not far behind the best. It may be behind, because the simulator models only links, not the copies
// that this form avoids.
std::optional<Choice> direct_on_links(const Question& question, const Settings& settings,
                                      ScheduleModel& schedule_model);
// As rank_on_links, for kernels on devices: each choice has the protocol with the least cost.
std::vector<Ranked> rank_on_device_links(const Question& question, const Settings& settings,
                                         ScheduleModel& schedule_model, DeviceReach reach);

// The range in which Miad may tune a plan's slices; not tunable() if each chunk is a single slice.
SliceRange slices_of(const Question& question, const Choice& choice, const schedule::ChunkLayout& layout,
                     std::size_t slot_bytes);

}  // namespace sccl::runtime
