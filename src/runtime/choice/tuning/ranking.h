// Who may serve the calls of a size class, best first as far as can be told without measuring.
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
  double predicted_us = 0;  // 0: nothing is predicted
  std::string why;
};

struct Question {
  Collective collective = Collective::allreduce;
  Rank root = 0;
  int ranks = 2;
  SizeClass size;
};

// How many may take part in a race, the first included.
inline constexpr std::size_t kMostEntrants = 5;

// On the host's own links: first what was learned (SCCL_DISPATCH=learned), else what choose() says, then the other
// planners and protocols by the simulator, as many as a race has. What the settings ask for bounds them.
std::vector<Ranked> rank_on_host(const Question& question, const Settings& settings, Reach reach,
                                 const LearnedDispatcher& learned = {});

// On links that the user has named: as the simulator says.
std::vector<Ranked> rank_on_links(const Question& question, const Settings& settings, ScheduleModel& schedule_model);

// On devices: what choose_on_device says, then as rank_on_host.
std::vector<Ranked> rank_on_device(const Question& question, const Settings& settings, DeviceReach reach);

// Those whose results have other bits than the first one's leave.
void keep_same_sums(std::vector<Ranked>& ranked, const Question& question, PlanCache& plans,
                    ScheduleModel* schedule_model);
// One hop between kernels that use one another's buffers in place, where the links join all ranks and the simulator
// does not see it far behind; it knows links only, and not the copies that are spared.
std::optional<Choice> direct_on_links(const Question& question, const Settings& settings,
                                      ScheduleModel& schedule_model);
// The same where kernels of devices move the data: with the protocol that costs least for each.
std::vector<Ranked> rank_on_device_links(const Question& question, const Settings& settings,
                                         ScheduleModel& schedule_model, DeviceReach reach);

// What MIAD may try for a plan's slices; not tunable() where a chunk is one slice anyway.
SliceRange slices_of(const Question& question, const Choice& choice, const schedule::Schedule& schedule,
                     std::size_t slot_bytes);

}  // namespace sccl::runtime
