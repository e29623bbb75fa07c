// All schedules that the planners have for one collective on given links. What time each takes is predicted in
// portfolio/prediction/predict.h.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "portfolio/flat/candidate.h"
#include "portfolio/prediction/predict.h"
#include "schedule/schedule.h"

namespace sccl::portfolio {

class ClusterPlanner;

// Whether a cluster has more than kMostFlatRanks ranks and is served by composites alone.
bool by_levels_alone(const topology::Topology& topology);

// Names of the kinds of candidates besides planners: "trees", "synth", ...
std::span<const std::string_view> kinds();

// Whether the setting `algorithm` (SCCL_ALGO or --algo) selects the candidate `name`: by the whole name, by the part
// before a plus sign, or by the kind before the figures.
bool answers_to(std::string_view name, std::string_view algorithm);
inline bool answers_to(const Candidate& candidate, std::string_view algorithm) {
  return answers_to(candidate.name, algorithm);
}

// A pure function of its arguments: searches are limited by work, not by time, so that all ranks get the same result.
// Never empty; throws invalid_argument when some rank cannot reach another. Packings that a cluster's plan leaves out
// because they take seconds are there if `asked` (SCCL_ALGO or --algo) names them. `planner` is made when it is needed
// first: who asks for several collectives or roots of one topology keeps it.
std::vector<Candidate> candidates(const topology::Topology& topology, Collective collective, Rank root,
                                  std::string_view asked, std::unique_ptr<ClusterPlanner>& planner);
std::vector<Candidate> candidates(const topology::Topology& topology, Collective collective, Rank root,
                                  std::string_view asked = {});

}  // namespace sccl::portfolio
