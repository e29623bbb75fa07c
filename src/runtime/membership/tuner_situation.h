// Describes a new communicator to the tuner choices: the questions to a plugin depend on this description.
#pragma once

#include "runtime/membership/tuner_choices.h"

namespace sccl::runtime {

struct Membership;

// `membership` must outlive the result.
TunerChoices::Situation tuner_situation(const Membership& membership);

}  // namespace sccl::runtime
