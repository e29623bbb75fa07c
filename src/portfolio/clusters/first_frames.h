// The time of a composite in many frames by simulations of its first frames.
#pragma once

#include <optional>

#include "compose/cost/cost.h"
#include "compose/form/composite.h"
#include "portfolio/flat/simulated_time.h"

namespace sccl::portfolio {

// Each further frame takes as long as those between an eighth and a fourth of all frames. On racks of unlike size, an
// AllReduce of 256 MiB in 32 frames is foreseen at 0.999 and 1.011 times what simulations of all frames take.
class FirstFrames {
 public:
  // Nothing for few frames, or for many steps between hosts: then the time of the first frames is one of latencies. A
  // ring of 9 hosts would be foreseen a fifth too slow. Nothing for forests, whose frames begin with different ways.
  static std::optional<FirstFrames> of(const compose::Composite& composite, const compose::Cost& cost);

  // Slices that are simulated, with what the flat forms take, as so many slices for each of `sends`, those of all
  // frames. `slices_of_chunk`: at least one.
  double work(double sends, double slices_of_chunk, double work_of_flat_form) const;

  // `options`: of all frames; `busy_us`: what the busiest link takes for all. Further frames take no less than it:
  // where the first ones wait for latencies, each may seem to take no time. SimulatedTime::slices are those of both
  // simulations.
  SimulatedTime time(const compose::Composite& composite, const schedule::SimulationOptions& options,
                     double busy_us) const;

 private:
  FirstFrames(int frames, int few, int more) : frames_(frames), few_(few), more_(more) {}

  int frames_, few_, more_;
};

}  // namespace sccl::portfolio
