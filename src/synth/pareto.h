// Pareto-Synthesize (SCCL 3.7, Algorithm 1): the schedules between least latency and least bandwidth.
//
// The paper has two costs, steps and rounds per chunk. Here a point may also stand out by having fewer chunks: the cost
// model does not price chunks, but small buffers do. `standing` tells which points belong to the paper's own frontier.
// The search runs in rounds of growing effort, so the best result so far is there whenever the budget ends.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "synth/synthesize.h"

namespace sccl::synth {

// What is known about a point among k-synchronous schedules, compared by steps and rounds per chunk.
enum class Standing : std::uint8_t {
  // no schedule has at most its steps and fewer rounds per chunk, or fewer steps and at most its rounds per chunk
  proved,
  open,       // no better schedule was found, but one may exist
  dominated,  // another point, with more chunks, is better
};

struct Point {
  Size size;  // chunks, steps and rounds of the schedule
  schedule::Schedule schedule;
  double seconds = 0;              // since the search began
  bool latency_optimal = false;    // as few steps as distances allow
  bool bandwidth_optimal = false;  // as few rounds per chunk as cuts allow
  Standing standing = Standing::open;
};

std::string_view optimality(const Point& point);  // latency, bandwidth, both or nothing
std::string_view name(Standing standing);

struct Frontier {
  std::vector<Point> points;  // by steps, then rounds per chunk
  int least_steps = 0;        // bounds
  Ratio least_rounds_per_chunk;
  int k = 0;
  int most_steps = 0;      // most steps searched; points made without a search may have more
  std::vector<Size> open;  // sizes neither found nor refuted that no point equals or beats
  bool complete = false;   // the sweep ended before the budget did
  double seconds = 0;

  std::string statement() const;  // one sentence: what is proved
};

struct ParetoOptions {
  // rounds beyond steps; negative: enough for the bandwidth bound, within 2 to 8 (twice that for AllReduce)
  int k = -1;
  int more_steps = 4;                       // beyond the fewest possible
  std::function<void(const Point&)> found;  // called for each new point
};

Frontier pareto(Synthesizer& synthesizer, const ParetoOptions& options, const Limits& limits);

}  // namespace sccl::synth
