// Who may serve the calls of a size class, best first as far as can be told without measuring.
#pragma once

#include <string>
#include <vector>

#include "runtime/dispatcher.h"
#include "runtime/plan_cache.h"
#include "runtime/rehearsal.h"
#include "runtime/tuning/learned.h"
#include "runtime/tuning/miad.h"
#include "runtime/tuning/size_class.h"

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
std::vector<Ranked> rank_on_links(const Question& question, const Settings& settings, Rehearsal& rehearsal);

// The same where kernels of devices move the data: with the protocol that costs least for each.
std::vector<Ranked> rank_on_device_links(const Question& question, const Settings& settings, Rehearsal& rehearsal, DeviceReach reach);

// What MIAD may try for a plan's slices; not tunable() where a chunk is one slice anyway.
SliceRange slices_of(const Question& question, const Choice& choice, const schedule::Schedule& schedule,
                     std::size_t slot_bytes);

}  // namespace sccl::runtime
