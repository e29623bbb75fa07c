// Steps for the sends of a schedule in the order of time, as they would begin if every connection passed what is there.
//
// A connection passes its messages in the order of steps. A message that is late delays all behind it, though many of
// them are there. Where ways are of different length, no distance between frames avoids that. So the sends are laid on
// the links one after the other, each as soon as its value is there and the connection is free; of those that wait for
// one connection, the most urgent one begins. Then each send takes its step from the time at which it begins.
//
// Sums that end at one rank (Reduce, ReduceScatter) are laid on the links backwards in time, as the copies that they
// are then: a sum that comes early waits, where a copy that comes early serves.
//
// What is left out: connections that wait for the reader of an old value. It only makes the order less good.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace sccl::schedule {

enum class Urgency : std::uint8_t {
  first_step,
  // That behind which most sends must follow one another: leaves of deep trees wait, and fill the links at the end. Not
  // for AllReduce, whose sums would all go before its copies.
  longest_way
};

// By send. A send that reads what another one brings, or what it must bring before that is replaced, keeps a later
// step, if it had one and all that reaches a rank before a send has something to do with it: the caller checks. Chunks
// are of `chunk_bytes`. A pure function of its arguments. O(n log n) for n = sends x links of their paths.
std::vector<Step> steps_by_time(const Schedule& schedule, double chunk_bytes, Urgency urgency = Urgency::first_step);

}  // namespace sccl::schedule
