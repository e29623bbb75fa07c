#include "portfolio/clusters/first_frames.h"

#include "compose/lowering/expand.h"

namespace sccl::portfolio {
namespace {

constexpr int kManyFrames = 32;
constexpr int kFewPart = 8;
constexpr int kMorePart = 4;
constexpr int kFramesOfStep = 2;

compose::Composite first(compose::Composite composite, int frames) {
  composite.chunks_per_rank = composite.chunks_per_rank / composite.frames * frames;
  composite.frames = frames;
  return composite;
}

}  // namespace

std::optional<FirstFrames> FirstFrames::of(const compose::Composite& composite, const compose::Cost& cost) {
  const int frames = composite.frames;
  if (frames < kManyFrames || frames % kFewPart != 0 || composite.at_root) return std::nullopt;
  if (kFramesOfStep * cost.between_hosts.steps > frames / kMorePart) return std::nullopt;
  return FirstFrames(frames, frames / kFewPart, frames / kMorePart);
}

double FirstFrames::work(double sends, double slices_of_chunk, double work_of_flat_form) const {
  return sends * (few_ + more_) / frames_ * (slices_of_chunk + work_of_flat_form);
}

SimulatedTime FirstFrames::time(const compose::Composite& composite, const schedule::SimulationOptions& options,
                                double busy_us) const {
  const auto simulate = [&](int frames) {
    return [&, frames](double stop_after_us) {
      schedule::SimulationOptions part = options;
      part.bytes *= static_cast<double>(frames) / frames_;
      part.stop_after_us = stop_after_us;
      const schedule::Simulation simulation =
          schedule::simulate(compose::expand_without_rounds(first(composite, frames)), part);
      return SimulatedTime{simulation.time_us, simulation.stopped, static_cast<double>(simulation.arrived)};
    };
  };
  const int left = frames_ - few_;
  return of_two_parts(static_cast<double>(left) / (more_ - few_), busy_us * left / frames_, options.stop_after_us,
                      simulate(few_), simulate(more_));
}

}  // namespace sccl::portfolio
