#include "portfolio/composites/framings.h"

namespace sccl::portfolio {
namespace {

constexpr Framing kFrames[] = {{1}, {8}};

// The closed form tells how long links wait (compose/cost/waiting.h). With more steps between them fewer frames overlap
// as long, so that chunks stay long; but in a ring of few hosts NICs would wait for the next frame.
constexpr Framing kManyFrames[] = {{1}, {4}, {8}, {16}, {32}};
constexpr Framing kManyFramesByTwo[] = {{1}, {4, 2}, {8, 2}, {16, 2}, {32, 2}};
constexpr Framing kManyFramesByFour[] = {{1}, {8}, {4, 4}, {8, 4}, {16, 4}, {32, 4}};
constexpr int kStepsForTwo = 3;  // of a ring's way
constexpr int kStepsForFour = 6;
// Of one root: chunks of one slice wait least; how many frames give such chunks depends on the buffer.
constexpr Framing kManyRootFrames[] = {{1}, {8, 4, true}, {16, 4, true}};

// A rank's program has one or more operations for each chunk.
constexpr int kFewFrames = 8;
constexpr int kMostChunksOfMoreFrames = 16384;

}  // namespace

std::span<const Framing> frames_of_many(Collective collective, bool ring, int hosts) {
  if (collective == Collective::broadcast || collective == Collective::reduce) return kManyRootFrames;
  const bool both_ways = collective == Collective::allreduce;
  const bool of_blocks = collective == Collective::allgather || collective == Collective::reducescatter;
  if (!both_ways && !of_blocks) return kFrames;
  const int steps = ring ? hosts - 1 : 0;
  std::span<const Framing> all = kManyFramesByFour;
  if (steps < kStepsForFour) all = both_ways && steps >= kStepsForTwo ? kManyFramesByTwo : kManyFrames;
  return both_ways ? all : all.first(all.size() - 1);  // blocks are short
}

bool too_many_frames(const Framing& framing, int chunks) {
  return framing.frames > kFewFrames && chunks > kMostChunksOfMoreFrames;
}

}  // namespace sccl::portfolio
