// Into how many frames composites are cut, and how many steps lie between them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compose/cost/cost.h"
#include "compose/form/composite.h"
#include "compose/form/tree.h"
#include "portfolio/flat/flat_form.h"
#include "schedule/schedule.h"

namespace sccl::portfolio {

// Composite::frames, frame_steps and staggered, and what becomes of the steps where flat forms are made.
struct Framing {
  int frames = 1;
  int steps = 1;
  bool staggered = false;
  Steps order = Steps::of_frames;
  // Where hosts do alike: hosts that stand for all (compose/form/composite.h), so that AllReduce has longer chunks.
  int hosts = 1;
};

// Deep trees: a simulation tells. An order by time is best for chunks of one slice: longer data needs more frames.
inline constexpr Framing kMoreFrames[] = {
    {1}, {8}, {16, 1, false, Steps::by_time}, {32, 1, false, Steps::by_time}, {64, 1, false, Steps::by_time}};
// Data that enters hosts at several devices takes ways of different length. Chunks wait for one another less if frames
// follow one another later.
inline constexpr Framing kOrderedFramesOfEntries[] = {{1},
                                                      {4, 1, false, Steps::by_time},
                                                      {8, 2, false, Steps::by_time},
                                                      {16, 2, false, Steps::by_time},
                                                      {32, 2, false, Steps::by_time}};
// For sums and copies at once.
inline constexpr Framing kFramesBothWays[] = {{1}, {8}, {16, 2}, {16, 4, false, Steps::by_time}};
// Where hosts are joined unevenly, the links between them are the busiest: sums pass them in one direction, copies in
// the other. Likewise where hosts have unequal NICs. Copies begin when the first frame has been summed, and sums end
// before the last frame is copied, so short frames pay, most of all over racks and lines. The most promising first:
// simulations of the others end at its time.
inline constexpr Framing kShortFrames[] = {{64}, {64, 2}, {32}, {32, 2}, {16, 1, false, Steps::by_time}, {8}, {1}};
inline constexpr Framing kShortFramesOverSlowLinks[] = {{64},    {64, 2}, {32}, {32, 2}, {16, 4, false, Steps::by_time},
                                                        {16, 2}, {8},     {1}};
// Of one root: its links bring more than each NIC takes, and NICs should all begin early.
inline constexpr Framing kRootFrames[] = {{1}, {8, 6, true}};
inline constexpr Framing kForestFrames[] = {{1}, {16, 4, true, Steps::by_time}};
inline constexpr Framing kManyForestFrames[] = {{16, 4, true}, {32, 4, true}};
// Of an AllReduce on many ranks whose hosts are joined unevenly, besides those of all: one tree's sums and copies
// follow one another sooner in shorter frames.
inline constexpr Framing kMorePackedFrames[] = {{64}, {64, 2}, {96, 0}};
// Where NICs have slack.
inline constexpr Framing kSlackFrames[] = {{16, 6, true, Steps::by_time}};

inline std::vector<Framing> as_list(std::span<const Framing> framings) { return {framings.begin(), framings.end()}; }

// An order by time is good for chunks of one slice, so that more data needs more frames. What the root's host does with
// the first frames it does again with the next ones: the same loads, in shorter chunks.
compose::Composite in_more_frames(compose::Composite composite, int times);
compose::Cost in_more_frames(compose::Cost cost, const compose::Composite& composite);

// Long data of one root on many hosts is on its way to or from the farthest devices for a shorter part of the time in
// twice as many frames. Where a forest at the root is made they cost little more: it does the same for all frames.
inline constexpr int kFramesOfLongData = 32;

// Composite::root_lead of a Broadcast whose strands begin one after the other. Without one 64 frames 8 steps apart take
// 1.155 times the bound on 8*z52-full (256 MiB), with one 1.053; with leads of 8 to 16 steps no framing takes longer
// than without, with shorter ones some do.
inline constexpr int kRootLead = 16;

// For clusters that are not simulated: so many hosts in a shape, of devices that data enters by, one or more for each
// chunk; a host adds its data in so many steps.
std::vector<Framing> frames_of_many(Collective collective, compose::Shape shape, int hosts, bool entries,
                                    int steps_of_sums);

// Of composites that get an order by time of one host's sends. `turns`: how many chunks of a root take all turns of a
// host once, where these are unlike (hosts with entries); else 0. None where programs would be too long.
std::vector<Framing> frames_by_time(Collective collective, int turns, int hosts, int ports);

// The end of a composite's name.
std::string frames_in_name(const compose::Composite& composite);

// Whether ranks' programs get too long; `chunks` are those of all frames.
bool too_many_frames(const Framing& framing, int chunks, int ranks);
bool too_many_by_time(Collective collective, int chunks);  // where they follow an order

}  // namespace sccl::portfolio
