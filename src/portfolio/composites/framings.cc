#include "portfolio/composites/framings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "portfolio/composites/shapes.h"
#include "portfolio/flat/candidate.h"

namespace sccl::portfolio {
namespace {

constexpr Framing kFrames[] = {{1}, {8}};

// The closed form tells how long links wait for chunks, and NICs for messages (compose/cost/waiting.h).
constexpr int kNumbersOfFrames[] = {2, 4, 8, 16, 32};
constexpr int kManyHosts = 1024;          // each candidate takes long to compute, and blocks are short
constexpr int kShortBlocks = 64;          // hosts; blocks are too short for more frames
constexpr int kMostFramesOfEntries = 16;  // blocks are short, and such chunks many

// Of one root: chunks of one slice wait least; how many frames give such chunks depends on the buffer. Frames of little
// data wait for one another if they are many steps apart.
constexpr Framing kManyRootFrames[] = {{1}, {8, 1, true}, {8, 4, true}, {16, 4, true}, {24, 3, true}, {32, 2, true}};

// An AllReduce by several trees has as few chunks as its buffer may have.
constexpr Framing kManyTreeFrames[] = {{1}, {8, 0}, {16, 0}, {8, 2}, {16, 2}, {32, 1}, {32, 2}, {48, 2}, {64, 2}};

// A rank's program has one or more operations for each chunk. It may be as long as one of an AllReduce in few frames.
constexpr int kFewFrames = 8;
constexpr int kMostChunksOfMoreFrames = 16384;
constexpr int kMostChunksOfRank = 6;

unsigned longest_way_over_grid(int hosts) {
  return static_cast<unsigned>(compose::trees(compose::Shape::grid, hosts).front().steps);
}

}  // namespace

compose::Composite in_more_frames(compose::Composite composite, int times) {
  composite.frames *= times;
  composite.chunks_per_rank *= times;
  return composite;
}

compose::Cost in_more_frames(compose::Cost cost, const compose::Composite& composite) {
  const int times = composite.frames / cost.frames;
  cost.frames = composite.frames;
  cost.steps_of_frames = (cost.frames - 1) * composite.frame_steps;
  cost.chunk_per_byte /= times;
  cost.messages_between_hosts *= times;
  cost.messages_on_host *= times;
  return cost;
}

std::vector<Framing> frames_of_many(Collective collective, compose::Shape shape, int hosts, bool entries,
                                    int steps_of_sums) {
  if (passes_whole(collective)) return as_list(kManyRootFrames);
  const bool both_ways = collective == Collective::allreduce;
  if (both_ways && several_trees(shape)) return as_list(kManyTreeFrames);
  const bool ring = shape == compose::Shape::ring;
  const bool of_blocks = collective == Collective::allgather || collective == Collective::reducescatter;
  if (!both_ways && !of_blocks) return as_list(kFrames);
  // Where links wait little for chunks, frames that all begin at once are best: no link waits for the first frame's
  // next step before it passes the second frame's first one. All hosts add an AllReduce's data at once: with more steps
  // between frames their links would be idle for some of them. In a ring frames of blocks follow one another closely if
  // they are as many steps apart as there are hosts, or a part of them.
  std::set<int> steps{1, ring && both_ways ? std::clamp(steps_of_sums, 1, 2) : 2};
  if (ring && both_ways) steps.insert(std::clamp(steps_of_sums, 1, std::min(hosts, compose::kMostFrameSteps)));
  if (ring && of_blocks)
    for (int apart = hosts; apart > 2; apart /= 4)
      if (apart <= compose::kMostFrameSteps) steps.insert(apart);
  // In a grid as many as its longest way has.
  if (shape == compose::Shape::grid) steps.insert(static_cast<int>(std::bit_floor(longest_way_over_grid(hosts))));
  steps.insert(0);
  std::vector<Framing> result{{1}};
  for (const int apart : steps)
    for (const int frames : kNumbersOfFrames) {
      if (hosts > kManyHosts && frames != 8 && frames != 32) continue;
      if (frames == 2 && ((!of_blocks && !both_ways) || hosts < kShortBlocks)) continue;
      if (both_ways || !entries || frames <= kMostFramesOfEntries) result.push_back({frames, apart});
    }
  return result;
}

std::string frames_in_name(const compose::Composite& composite) {
  if (composite.staggered) return fmt::format("/{}/{}", composite.frames, composite.frame_steps);
  if (composite.frames == 1) return "";
  return composite.frame_steps == 1 ? fmt::format("/{}", composite.frames)
                                    : fmt::format("/{}x{}", composite.frames, composite.frame_steps);
}

namespace {

// Programs that follow an order have an operation for each send.
int most_chunks_by_time(Collective collective) { return collective == Collective::allreduce ? 10240 : 24576; }

// The fewest hosts that divide all, so that as many chunks fit; 0: some more would not do alike enough.
int hosts_for_all(int chunks_of_all_roots, int hosts) {
  constexpr int kMost = 4;
  for (int some = 1; some <= std::min(kMost, hosts); ++some)
    if (hosts % some == 0 && chunks_of_all_roots / some <= most_chunks_by_time(Collective::allreduce)) return some;
  return 0;
}

}  // namespace

// The order of frames is where the search begins, and data that enters hosts at several devices has long ways. Where
// there would be too many chunks for all turns of a host, some of the turns are nearly even.
std::vector<Framing> frames_by_time(Collective collective, int turns, int hosts, int ports) {
  const bool both_ways = collective == Collective::allreduce;
  std::vector<Framing> result;
  result.reserve(2);
  const auto add = [&](int frames, int steps, int most_hosts) {
    const int chunks = frames * hosts * ports;
    const int some = both_ways ? hosts_for_all(chunks, hosts) : chunks <= most_chunks_by_time(collective) ? 1 : 0;
    Framing one{frames, steps, false, Steps::by_time};
    one.hosts = some;
    if (some > 0 && some <= most_hosts) result.push_back(one);
  };
  if (turns == 0) {
    add(16, 1, 1);
    add(32, 1, 1);
    return result;
  }
  add(turns, 8, hosts);
  add(2 * turns, 5, 1);
  for (const int some_turns : {16, 8})
    if (result.empty() && turns > some_turns) add(some_turns, both_ways ? 12 : 2, hosts);
  return result;
}

bool too_many_by_time(Collective collective, int chunks) { return chunks > most_chunks_by_time(collective); }

bool too_many_frames(const Framing& framing, int chunks, int ranks) {
  return framing.frames > kFewFrames && chunks > std::max(kMostChunksOfMoreFrames, kMostChunksOfRank * ranks);
}

}  // namespace sccl::portfolio
