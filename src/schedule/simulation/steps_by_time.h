// Steps for the sends of a schedule in the order of time, as they would begin if every connection passed what is there.
//
// A connection passes its messages in the order of steps. A message that is late delays all behind it, though many of
// them are there. Where ways are of different length, no distance between frames avoids that. So the sends are laid on
// the links one after the other, each as soon as its value is there and the connection is free; of those that wait for
// one connection, the first one in an order begins. Then each send takes its step from its place among all that began.
//
// Which order. At first that of the given steps, or the longest ways first. It knows little of when a chunk that leaves
// now comes to its last rank: chunks that have far to go should leave early. So the sends are laid on the links once
// more, backwards in time, those that came last first: all are then as late as they can be. And forwards again, in the
// order of these times. (In the scheduling of projects this is known as justification, forwards and backwards.) The
// best layout counts.
//
// Sums that end at one rank (Reduce, ReduceScatter) are laid on the links backwards at first, as the copies that they
// are then. All that ranks own is there from the beginning, and laid forwards it may crowd the links: so the order of
// the layout backwards is tried as it is, too, where ranks add in this order and what is early keeps its slot.
//
// Of one root (Broadcast, Reduce) the search begins a second time, as far as time allows: with each chunk's steps
// turned round and the last chunk first, which of a Reduce gives the order of the Broadcast with the same steps. Laid
// forwards, connections choose there among the next few sends alone, so that sums of what comes late are not behind all
// that a rank owns.
//
// A layout is what simulate() does with the steps and chunks of this length, to the picosecond, unless a rank must wait
// for the reader of an old value.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/host_share.h"
#include "schedule/schedule.h"

namespace sccl::schedule {

// The order of the first layout.
enum class Urgency : std::uint8_t {
  first_step,
  // That behind which most sends must follow one another: leaves of deep trees wait, and fill the links at the end. Not
  // for AllReduce, whose sums would all go before its copies.
  longest_way
};

struct TimedSteps {
  std::vector<Step> steps;  // by send, all different
  double us = 0;            // that the layout takes
};

// A send that reads what another one brings, or what it must bring before that is replaced, keeps a later step, if it
// had one and all that reaches a rank before a send has something to do with it: the caller checks. Chunks are of
// `chunk_bytes`. A pure function of its arguments. O(n log n) for n = sends x links of their paths.
TimedSteps steps_by_time(const Schedule& schedule, double chunk_bytes, Urgency urgency = Urgency::first_step);

// The same for what the host sends that stands for all: every host's sends get the steps of its own.
TimedSteps steps_by_time(const HostShare& share, double chunk_bytes, Urgency urgency = Urgency::first_step);

}  // namespace sccl::schedule
