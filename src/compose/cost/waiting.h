// How long the busiest links wait for chunks of AllGather, ReduceScatter and AllReduce, and where chunks return to the
// root's host.
//
// Frames begin one after the other. While the first of them have not come to their last steps, and when the last ones
// have left their first steps, links that are busy in other steps wait: about as long as a link is busy with one frame.
// So the wait is the shorter the more frames there are. It is shorter, too, where steps lie between the frames: then
// fewer frames are under way together, and the first ones end early. How long it is without frames: of an AllReduce
// other links may be the busiest while sums pass than while copies pass, which the loads tell; apart from that it is
// fitted to simulations of 64 and 128 ranks: a part of the busiest link's time where hosts and network are about as
// busy. Rings wait less, the longer the less, as each link has its next chunks in line; grids
// less than other shapes. Where hosts send to several others in a step, and not to one after the other, frames that all
// begin at once do not help: devices pass chunks on in another order than they come, and hosts and NICs take turns.
//
// The more steps lie between frames the fewer messages are under way, and the longer NICs stand idle (Gaps). In a ring
// of H hosts a chunk keeps NICs busy for H - 1 steps: frames H steps apart follow one another without a gap where the
// messages of one frame are enough to hide the latency.
//
// Of a Broadcast or Reduce whose chunks return to the root's host, a wait as long as a good part of a frame is seen
// whichever links are busy, and the longer the more devices each chunk enters hosts at: fitted likewise. Such waits are
// longer where a connection has too few slots to make up for them (Cost::time_us). Frames of one root that follow one
// another in fewer than four steps wait as well. In more steps they wait for one another where there is little data:
// each step takes the latency between two devices (Cost::steps_of_frames).
#pragma once

#include "compose/cost/cost.h"

namespace sccl::compose {

// Of an AllReduce: what the busiest link of a host passes of sums alone, with half of what passes NICs, and of copies.
struct Apart {
  double sums_us_per_byte = 0;  // of L
  double copies_us_per_byte = 0;
};

// Per byte of L, of AllGather, ReduceScatter and AllReduce; `cost` knows the busiest links.
double waiting_us_per_byte(const Composite& composite, const Routes& routes, const Cost& cost, const Apart& apart);

// Per byte of L, of a Broadcast or Reduce some of whose chunks return to the root's host.
double waiting_for_returns_us_per_byte(const Composite& composite, const Cost& cost);

// Per byte of L, of a Broadcast or Reduce whose frames follow one another closely.
double waiting_of_one_root_us_per_byte(const Composite& composite, const Cost& cost);

// Of AllGather, ReduceScatter and AllReduce; `cost` knows the phase between hosts.
Gaps gaps_between_frames(const Composite& composite, const Routes& routes, const Cost& cost);

}  // namespace sccl::compose
