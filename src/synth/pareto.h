// Pareto-Synthesize (SCCL 3.7, Algorithm 1): the schedules between least latency and least bandwidth.
//
// Beside the paper's two costs, steps and rounds per chunk, a point may stand out by having fewer chunks, which the
// cost model does not price but small buffers do; `pareto` tells the paper's own frontier from those. Searching goes
// round after round with growing effort, so that the best so far is there whenever the budget ends.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "synth/synthesize.h"

namespace sccl::synth {

// What is known of a point's place in the plane of steps and rounds per chunk, among k-synchronous schedules.
enum class Standing : std::uint8_t {
  proved,  // nothing has at most its steps and fewer rounds per chunk, or fewer steps and at most its rounds per chunk
  open,    // nothing better was found, and something better is not excluded
  dominated,  // another point is better, with more chunks
};

struct Point {
  Size size;  // what the schedule takes
  schedule::Schedule schedule;
  double seconds = 0;              // from the beginning of the search
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
  int most_steps = 0;      // that were looked at, beyond what needs no search
  std::vector<Size> open;  // would be better than what was found, and are neither found nor refuted
  bool complete = false;   // the sweep ended before the budget did
  double seconds = 0;

  std::string statement() const;  // what is proved, in a sentence
};

struct ParetoOptions {
  int k = -1;  // rounds beyond steps; negative: enough for the bandwidth bound, but 2 to 8 (twice that for AllReduce)
  int more_steps = 4;                       // beyond the fewest possible
  std::function<void(const Point&)> found;  // called for each new point
};

Frontier pareto(Synthesizer& synthesizer, const ParetoOptions& options, const Limits& limits);

}  // namespace sccl::synth
