#include "portfolio/portfolio.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "planners/planners.h"
#include "portfolio/clusters/cluster_planner.h"
#include "portfolio/composites/even_tree_candidates.h"
#include "portfolio/flat/detours.h"
#include "portfolio/flat/tree_candidates.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/cost.h"
#include "synth/synthesize.h"
#include "topology/graph/joined.h"

namespace sccl::portfolio {
namespace {

// For larger machines a search takes longer than a first call may; such machines have a catalogue entry or none.
constexpr int kSynthesizedRanks = 8;
constexpr int kMostPieces = 6;
constexpr int kMoreSteps = 2;
constexpr std::int64_t kConflicts = 20000;          // of one turn of one query
constexpr std::int64_t kAllConflicts = 4500;        // of all queries together, at 20 to 40 us each
constexpr std::int64_t kNetworkConflicts = 2000;    // the same on a cluster, where composites are mostly as good
constexpr double kSame = 1e-9;                      // tolerance for rounds per chunk
constexpr int kMostPackedClusterRanks = 16;         // above this, composites are as good and are available at once
constexpr int kMostPackedRoots = 8;                 // on a cluster: packing trees of more roots takes a second
constexpr std::size_t kMostFramedSends = 130000;    // of one schedule: a second to lower
constexpr std::size_t kMostSendsOfSlices = 260000;  // for gigabytes alone

void add_planners(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective,
                  Rank root) {
  for (const planners::Planner& planner : planners::table())
    if (auto schedule = planner.plan(topology, collective, root))
      result.push_back({std::string(planner.name), Origin::planner, *std::move(schedule), 1});
}

// The schedule with the fewest rounds for the given chunks and steps; tries the lower bound and the next number. Must
// need fewer rounds per chunk than `best`.
std::optional<schedule::Schedule> fewest_rounds(synth::Synthesizer& synthesizer, int chunks, int steps, double best,
                                                synth::Effort effort) {
  const synth::Ratio bound = synthesizer.least_rounds_per_chunk();
  const auto least = static_cast<int>((bound.numerator * chunks + bound.denominator - 1) / bound.denominator);
  for (int rounds = std::max(steps, least); rounds <= std::max(steps, least) + 1; ++rounds) {
    const synth::Size size{chunks, steps, rounds};
    if (static_cast<double>(rounds) / chunks >= best - kSame) break;
    if (!effort.spent() && synthesizer.refutes(size)) continue;
    if (auto answer = synthesizer.find(size, effort, {}); answer.schedule) return std::move(answer.schedule);
  }
  return std::nullopt;
}

// For each number of steps, beginning with the least possible: the schedule with the fewest rounds per chunk, if it is
// better than all schedules of fewer steps (SCCL 3.7).
void add_synthesized(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective,
                     Rank root, std::int64_t conflicts) {
  if (topology.ranks > kSynthesizedRanks || topology.ranks < 2) return;
  synth::Synthesizer synthesizer(topology, collective, root);
  if (!synthesizer.connected()) return;
  std::int64_t left = conflicts;
  const synth::Effort effort{kConflicts, &left};
  double best = 1e30;  // rounds per chunk
  const int least_steps = synthesizer.least_steps();
  for (int steps = least_steps; steps <= least_steps + kMoreSteps * synthesizer.phases(); ++steps) {
    std::optional<schedule::Schedule> chosen;
    for (int pieces = 1; pieces <= kMostPieces; ++pieces) {
      auto schedule = fewest_rounds(synthesizer, pieces * synthesizer.chunk_multiple(), steps, best, effort);
      if (!schedule) continue;
      const double ratio = schedule::stepped_cost(*schedule).rounds_per_chunk();
      if (ratio >= best - kSame) continue;
      best = ratio;
      chosen = std::move(schedule);
    }
    if (!chosen) continue;
    const auto cost = schedule::stepped_cost(*chosen);
    result.push_back({fmt::format("synth {}/{}/{}", cost.chunks_per_rank, cost.steps, cost.rounds), Origin::synthesis,
                      *std::move(chosen), 1});
  }
}

// Adds flat forms of the composites. Topologies that are not hosts on a network have none.
void add_levels(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective, Rank root,
                std::unique_ptr<ClusterPlanner>& planner) {
  std::vector<CompositeCandidate> composites;
  try {
    if (planner == nullptr) planner = std::make_unique<ClusterPlanner>(topology);
    composites = planner->candidates(collective, root);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument || result.empty()) throw;
    return;  // links of class net that connect devices directly: flat schedules serve these
  }
  for (const CompositeCandidate& one : composites) {
    FlatForm flat(one.composite, one.steps);
    const std::size_t most = one.steps == Steps::by_time_of_slices ? kMostSendsOfSlices : kMostFramedSends;
    if (one.composite->frames > 1 && flat.sends() > most) continue;
    result.push_back({one.name(), Origin::levels, std::move(flat), one.composite->frames,
                      std::make_shared<const compose::Cost>(one.cost), one.composite});
  }
}

bool on_a_network(const topology::Topology& topology) {
  return std::any_of(topology.links.begin(), topology.links.end(),
                     [](const topology::Link& link) { return link.link_class == topology::LinkClass::net; });
}

}  // namespace

bool by_levels_alone(const topology::Topology& topology) {
  if (topology.ranks <= kMostFlatRanks || !on_a_network(topology)) return false;
  const topology::Cluster cluster = topology::cluster_of(topology);
  return cluster.hosts.size() > 1 && std::any_of(cluster.attachments.begin(), cluster.attachments.end(),
                                                 [](const auto& one) { return one.attached(); });
}

std::span<const std::string_view> kinds() {
  static constexpr std::string_view names[] = {"trees",   "hybrid", "three-phase", "rings",
                                               "detours", "synth",  kEvenTrees,    "levels"};
  return names;
}

bool answers_to(std::string_view name, std::string_view algorithm) {
  return name == algorithm || name.substr(0, name.find('+')) == algorithm ||
         name.substr(0, name.find_first_of(" /")) == algorithm;
}

std::vector<Candidate> candidates(const topology::Topology& topology, Collective collective, Rank root,
                                  std::string_view asked) {
  std::unique_ptr<ClusterPlanner> planner;
  return candidates(topology, collective, root, asked, planner);
}

std::vector<Candidate> candidates(const topology::Topology& topology, Collective collective, Rank root,
                                  std::string_view asked, std::unique_ptr<ClusterPlanner>& planner) {
  if (root < 0 || root >= topology.ranks)
    fail(ErrorCode::invalid_argument, "root {} is not one of the ranks 0..{} of topology '{}'", root,
         topology.ranks - 1, topology.name);
  std::vector<Candidate> result;
  const bool network = on_a_network(topology);
  if (network && (by_levels_alone(topology) || !topology::joined(topology))) {
    add_levels(result, topology, collective, root, planner);
    return result;
  }
  add_planners(result, topology, collective, root);
  if (result.empty())
    fail(ErrorCode::invalid_argument,
         "topology '{}': {} has no schedule, since some rank cannot reach another: add links", topology.name,
         info(collective).call_name);
  if (auto schedule = detours(topology, collective, root))
    result.push_back({"detours", Origin::planner, *std::move(schedule), 1});
  if (network) add_levels(result, topology, collective, root, planner);
  const bool levels = !result.empty() && result.back().origin == Origin::levels;
  const bool packed = asked.starts_with("trees") || asked.starts_with("hybrid");
  if (!levels || packed || topology.ranks <= kMostPackedClusterRanks) {
    const bool quick = levels && !packed && topology.ranks > kMostPackedRoots && !info(collective).rooted;
    add_trees(result, topology, collective, root, quick ? TreeKinds::quick : TreeKinds::all);
  }
  add_synthesized(result, topology, collective, root, levels ? kNetworkConflicts : kAllConflicts);
  for (const Candidate& candidate : result)
    if (candidate.origin != Origin::levels) schedule::verify(*candidate.schedule);  // those are proved by composition
  return result;
}

}  // namespace sccl::portfolio
