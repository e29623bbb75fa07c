// Figures of the packing benchmark: times foreseen for what the planner offers, and means.
#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "treegen/packing/pack.h"

namespace sccl::bench {

inline constexpr double kBytes = 500e6;  // Blink 5.2

// The best of several numbers of frames: few lose time to filling the trees, many to latency.
double simulated_us(const schedule::Schedule& schedule, double bytes);

// What the planner offers for kBytes on these links: the packed trees in frames, or rings where all links lie on them.
double offered_us(const topology::Topology& part, const treegen::Packing& packing);

double mean(const std::vector<double>& values);
double geometric_mean(const std::vector<double>& values);
std::string summary(const std::vector<double>& values);
std::string list(const std::vector<int>& devices);

}  // namespace sccl::bench
