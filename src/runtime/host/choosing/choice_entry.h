// The calls that one choice serves: of one collective, root and size class, and with one need for the order of
// summation (chooser.h).
#pragma once

#include <memory>
#include <vector>

#include "runtime/choice/dispatcher.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/choice/tuning/autotuner.h"
#include "runtime/choice/tuning/ranking.h"
#include "runtime/choice/tuning/tuning_file.h"

namespace sccl::runtime {

// The choice and the plan that serve a call.
struct ServedChoice {
  Choice choice;
  const Plan* plan = nullptr;
};

struct ChoiceEntry {
  TuningKey key;
  Question question;
  std::vector<Ranked> ranked;
  std::vector<ServedChoice> entrants;    // plans are made when their turn comes
  std::unique_ptr<Autotuner> autotuner;  // null if the entry was settled from the beginning
  ServedChoice serving;
  bool settled = false;

  // The choice that ran in a turn of the autotuner.
  Choice choice_of(const Autotuner::Turn& turn) const {
    Choice choice = entrants[static_cast<std::size_t>(turn.entrant)].choice;
    if (turn.slice != 0) choice.slice_bytes = turn.slice;
    return choice;
  }
};

}  // namespace sccl::runtime
