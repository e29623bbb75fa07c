#include "runtime/choice/schedule_model.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "compose/expand.h"
#include "topology/formats/json.h"

namespace sccl::runtime {
namespace {

using Candidates = std::vector<portfolio::Candidate>;

// Candidates that all ranks of a process share, so that only one rank searches. Never destroyed: communicators may
// outlive static destruction.
class SharedCandidates {
 public:
  std::shared_ptr<const Candidates> find(const topology::Topology& topology, Collective collective, Rank root,
                                         const std::string& asked) {
    const std::string key =
        fmt::format("{} {} {} {}", static_cast<int>(collective), root, asked, topology::to_json(topology).dump());
    const std::lock_guard lock(mutex_);  // held during the search, so that other ranks wait instead of searching, too
    if (auto known = entries_[key].lock()) return known;
    auto made = std::make_shared<const Candidates>(portfolio::candidates(topology, collective, root, asked));
    entries_[key] = made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Candidates>> entries_;
};

SharedCandidates& shared_candidates() {
  static auto* const instance = new SharedCandidates;
  return *instance;
}

// What a message costs the processors of a host where ranks wait for one another's turns: by an engine over TCP, with
// its answer, and from rank to rank.
constexpr double kRemoteMessageUs = 10;
constexpr double kLocalMessageUs = 2;
// A byte of AlltoAll from rank to rank: into a slot and out of it, at 10 GB/s each, on two cores. What is for another
// host passes from rank to rank never (direct), once (rails) or twice (leaders). The schedules of another collective
// hardly differ in such bytes.
constexpr double kLocalByteUs = 1e-4;

double processor_us(Collective collective, const compose::Cost& cost, double bytes, double slice_bytes) {
  const double chunk_bytes = cost.chunk_per_byte * bytes;
  const double slices = std::max(1.0, std::ceil(chunk_bytes / slice_bytes));
  const double local_byte_us = collective == Collective::alltoall ? kLocalByteUs : 0;
  return slices * kRemoteMessageUs * cost.messages_between_hosts +
         (slices * kLocalMessageUs + chunk_bytes * local_byte_us) * cost.messages_on_host;
}

}  // namespace

ScheduleModel::ScheduleModel(topology::Topology topology, const portfolio::Pipeline& pipeline, Candidacy candidacy)
    : topology_(std::move(topology)),
      hosts_(std::max(1, static_cast<int>(topology::cluster_of(topology_).hosts.size()))),
      pipeline_(pipeline),
      by_levels_(candidacy == Candidacy::hosts || portfolio::by_levels_alone(topology_)),
      counts_messages_(candidacy == Candidacy::hosts) {}

const ScheduleModel::Composites& ScheduleModel::composites(Collective collective, Rank root) {
  const auto [found, inserted] = composites_.try_emplace({collective, root});
  if (inserted) {
    if (!planner_) planner_.emplace(topology_);
    found->second = planner_->candidates(collective, root);
  }
  return found->second;
}

std::vector<ScheduleModel::Ranked> ScheduleModel::ranking_by_levels(Collective collective, Rank root, double bytes,
                                                                    const std::string& asked) {
  const Composites& all = composites(collective, root);
  std::vector<Ranked> ranked;
  for (const portfolio::CompositeCandidate& one : all) {
    const double slice = one.cost.good_slice(bytes, pipeline_.slice_bytes);
    const double messages_us = counts_messages_ ? processor_us(collective, one.cost, bytes, pipeline_.slice_bytes) : 0;
    ranked.push_back({one.composite->name, one.cost.time_us(bytes, slice) + messages_us,
                      !asked.empty() && portfolio::answers_to(one.composite->name, asked)});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Ranked& a, const Ranked& b) { return a.predicted_us < b.predicted_us; });
  return ranked;
}

const Candidates& ScheduleModel::candidates(Collective collective, Rank root, const std::string& asked) {
  auto& kept = candidates_[{collective, root}];
  if (!kept) kept = shared_candidates().find(topology_, collective, root, asked);
  return *kept;
}

std::vector<ScheduleModel::Ranked> ScheduleModel::ranking(Collective collective, Rank root, std::size_t bytes,
                                                          const Settings& settings) {
  const std::string asked = settings.algorithm(collective);
  std::vector<Ranked> ranked;
  if (by_levels_) {
    const bool shares = collective == Collective::reducescatter || collective == Collective::scatter ||
                        collective == Collective::alltoall;
    const double buffer = static_cast<double>(bytes) * (shares ? topology_.ranks : 1);
    ranked = ranking_by_levels(collective, root, buffer, asked);
    std::stable_partition(ranked.begin(), ranked.end(), [](const Ranked& one) { return one.asked; });
    return ranked;
  }
  const Candidates& all = candidates(collective, root, asked);
  for (const portfolio::Prediction& prediction : portfolio::predict(all, bytes, 1, pipeline_)) {
    const portfolio::Candidate& candidate = all[prediction.candidate];
    ranked.push_back({candidate.name, prediction.time_us, !asked.empty() && portfolio::answers_to(candidate, asked)});
  }
  if (ranked.empty())
    for (const portfolio::Candidate& candidate : all)
      ranked.push_back({candidate.name, 0, !asked.empty() && portfolio::answers_to(candidate, asked)});
  std::stable_partition(ranked.begin(), ranked.end(), [](const Ranked& one) { return one.asked; });
  return ranked;
}

bool ScheduleModel::add(Collective collective, Rank root, std::vector<portfolio::Candidate> more) {
  if (!takes_more()) return false;
  Candidates all = candidates(collective, root);
  const std::size_t before = all.size();
  for (portfolio::Candidate& candidate : more)
    if (std::none_of(all.begin(), all.end(), [&](const auto& known) { return known.name == candidate.name; }))
      all.push_back(std::move(candidate));
  if (all.size() == before) return false;
  candidates_[{collective, root}] = std::make_shared<const Candidates>(std::move(all));
  return true;
}

std::optional<compose::Verified> ScheduleModel::composite(Collective collective, Rank root, const std::string& name) {
  if (by_levels_) {
    for (const portfolio::CompositeCandidate& one : composites(collective, root))
      if (one.composite->name == name) return one.composite;
    return std::nullopt;
  }
  for (const portfolio::Candidate& candidate : candidates(collective, root))
    if (candidate.name == name) return candidate.composite;
  return std::nullopt;
}

const schedule::Schedule& ScheduleModel::schedule(Collective collective, Rank root, const std::string& name) {
  if (by_levels_) {
    const auto known = flat_.find({collective, root, name});
    if (known != flat_.end()) return known->second;
    for (const portfolio::CompositeCandidate& one : composites(collective, root))
      if (one.composite->name == name)
        return flat_.emplace(std::tuple(collective, root, name), compose::expand(*one.composite)).first->second;
  }
  for (const portfolio::Candidate& candidate : candidates(collective, root))
    if (candidate.name == name) return candidate.schedule;
  fail(ErrorCode::internal_error, "topology '{}': no candidate is called '{}'", topology_.name, name);
}

}  // namespace sccl::runtime
