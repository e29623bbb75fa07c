#include "portfolio/flat/tree_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "treegen/graph/frames.h"
#include "treegen/packing/rings.h"
#include "treegen/schedules/three_phase.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::portfolio {
namespace {

constexpr int kPackedRanks = 32;
// above this, proving that the trees are the fewest takes ten times as long as packing
constexpr int kFewestTreesRanks = 16;
constexpr int kFrames[] = {8, 32, 96};
constexpr std::size_t kMostSends = 16000;  // of one schedule: about 0.2 s to lower and check

treegen::PackOptions options_for(const topology::Topology& topology, treegen::CapacityUnit unit) {
  using treegen::TreeWeights;
  return {unit, topology.ranks > kFewestTreesRanks ? TreeWeights::unit : TreeWeights::any};
}

// NVLink beside PCIe, or links inside servers beside the network: trees then divide the data by bandwidth. This is the
// optimum that Blink's equation 8 approaches with two separate sets of trees.
bool lanes_differ(const topology::Topology& topology) {
  const auto per_lane = [](const topology::Link& link) { return link.gbytes_per_s / link.lanes; };
  const auto [least, most] =
      std::minmax_element(topology.links.begin(), topology.links.end(),
                          [&](const auto& a, const auto& b) { return per_lane(a) < per_lane(b); });
  constexpr double kMeasuringError = 1.05;
  return least != topology.links.end() && per_lane(*least) > 0 && per_lane(*most) > kMeasuringError * per_lane(*least);
}

void add_in_frames(std::vector<Candidate>& result, std::string_view name,
                   const std::optional<schedule::Schedule>& schedule) {
  if (!schedule) return;
  result.push_back({std::string(name), Origin::trees, *schedule, 1});
  for (const int frames : kFrames)
    if (schedule->sends.size() * static_cast<std::size_t>(frames) <= kMostSends)
      result.push_back(
          {fmt::format("{}/{}", name, frames), Origin::trees, treegen::in_frames(*schedule, frames), frames});
}

}  // namespace

void add_trees(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective, Rank root,
               TreeKinds kinds) {
  add_in_frames(result, "rings", treegen::rings(topology, collective, root));
  add_in_frames(result, "three-phase", treegen::three_phase(topology, collective, root));
  if (kinds == TreeKinds::quick || topology.ranks > kPackedRanks) return;
  using treegen::CapacityUnit;
  add_in_frames(result, "trees", treegen::plan(topology, collective, root, options_for(topology, CapacityUnit::lanes)));
  if (lanes_differ(topology))
    add_in_frames(result, "hybrid",
                  treegen::plan(topology, collective, root, options_for(topology, CapacityUnit::gbytes_per_s)));
}

}  // namespace sccl::portfolio
