#include "portfolio/flat/simulated_time.h"

#include <algorithm>
#include <cmath>

namespace sccl::portfolio {
namespace {

constexpr double kOfTwoParts = 3;  // one, and another that is twice as long

SimulatedTime run(const schedule::Simulator& simulator, schedule::SimulationOptions options, double part,
                  double stop_after_us) {
  options.bytes *= part;
  options.stop_after_us = stop_after_us;
  const schedule::Simulation simulation = simulator.run(options);
  return {simulation.time_us, simulation.stopped, static_cast<double>(simulation.arrived)};
}

}  // namespace

SimulatedTime of_two_parts(double further, double least_us, double stop_after_us,
                           const std::function<SimulatedTime(double)>& shorter,
                           const std::function<SimulatedTime(double)>& longer) {
  const SimulatedTime first = shorter(stop_after_us);
  if (first.stopped) return first;
  const SimulatedTime both = longer(first.us + (stop_after_us - first.us) / further);
  return {first.us + std::max(least_us, (both.us - first.us) * further), both.stopped, first.slices + both.slices};
}

double FlatSize::slices_of_chunk(const schedule::SimulationOptions& options) const {
  return options.slice_bytes > 0 ? std::max(1.0, options.bytes * chunk_per_byte_ / options.slice_bytes) : 1;
}

// Of a chunk in the shorter one of two parts. 0: all are simulated.
double FlatSize::slices_of_part(const schedule::SimulationOptions& options, double most, double of_parts) const {
  const double of_chunk = slices_of_chunk(options);
  const double of_part = std::max(1.0, std::floor(of_parts / kOfTwoParts / sends_));
  return sends_ * of_chunk > most && kOfTwoParts * of_part < of_chunk ? of_part : 0;
}

double FlatSize::slices(const schedule::SimulationOptions& options, double most, double of_parts) const {
  const double of_part = slices_of_part(options, most, of_parts);
  return sends_ * (of_part > 0 ? kOfTwoParts * of_part : slices_of_chunk(options));
}

SimulatedTime FlatSize::time(const schedule::Simulator& simulator, const schedule::SimulationOptions& options,
                             double most, double of_parts) const {
  const double of_part = slices_of_part(options, most, of_parts);
  if (of_part == 0) return run(simulator, options, 1, options.stop_after_us);
  const double part = of_part / slices_of_chunk(options);
  const auto simulate = [&](double of_all) {
    return [&, of_all](double stop_after_us) { return run(simulator, options, of_all, stop_after_us); };
  };
  return of_two_parts((1 - part) / part, 0, options.stop_after_us, simulate(part), simulate(2 * part));
}

}  // namespace sccl::portfolio
