// What a tuner plugin's questions depend on: the communicator that has just been made.
#pragma once

#include "runtime/membership/tuner_choices.h"

namespace sccl::runtime {

struct Membership;

// `membership` must outlive the result.
TunerChoices::Situation tuner_situation(const Membership& membership);

}  // namespace sccl::runtime
