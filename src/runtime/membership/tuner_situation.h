// Describes a communicator to those who choose for it: to the tuner choices, as the questions to a plugin depend on
// this description, and to the dispatcher for devices.
#pragma once

#include "runtime/choice/dispatcher.h"
#include "runtime/membership/tuner_choices.h"

namespace sccl::runtime {

struct Membership;

// How its devices reach one another; `membership` must have devices.
DeviceReach device_reach(const Membership& membership);

// `membership` must outlive the result.
TunerChoices::Situation tuner_situation(const Membership& membership);

}  // namespace sccl::runtime
