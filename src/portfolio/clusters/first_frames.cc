#include "portfolio/clusters/first_frames.h"

#include <algorithm>

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
  const auto simulate = [&](int frames, double stop_after_us) {
    schedule::SimulationOptions part = options;
    part.bytes *= static_cast<double>(frames) / frames_;
    part.stop_after_us = stop_after_us;
    return schedule::simulate(compose::expand_without_rounds(first(composite, frames)), part);
  };
  const schedule::Simulation few = simulate(few_, options.stop_after_us);
  const auto arrived = static_cast<double>(few.arrived);
  if (few.stopped) return {few.time_us, true, arrived};
  // So many times as many frames follow.
  const double further = static_cast<double>(frames_ - few_) / (more_ - few_);
  const schedule::Simulation more = simulate(more_, few.time_us + (options.stop_after_us - few.time_us) / further);
  const double least_us = busy_us * (frames_ - few_) / frames_;
  return {few.time_us + std::max(least_us, (more.time_us - few.time_us) * further), more.stopped,
          arrived + static_cast<double>(more.arrived)};
}

}  // namespace sccl::portfolio
