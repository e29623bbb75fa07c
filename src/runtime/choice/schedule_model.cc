#include "runtime/choice/schedule_model.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "compose/lowering/expand.h"
#include "compose/lowering/rank_parts.h"
#include "kernels/gpu/connection.h"
#include "kernels/host/messages/slot_places.h"
#include "portfolio/clusters/ranked.h"
#include "schedule/simulation/cost.h"
#include "topology/formats/json.h"

namespace sccl::runtime {
namespace {

using Candidates = std::vector<portfolio::Candidate>;

std::size_t bytes_of(const compose::Tree& tree) { return sizeof tree + static_cast<std::size_t>(tree.size()) * 16; }

// About: what composites of one cluster share does not count.
std::size_t bytes_of(const compose::Composite& composite) {
  std::size_t bytes = sizeof composite + (composite.root_turns.size() + composite.root_hosts.size()) * sizeof(int);
  for (const compose::Host& host : composite.hosts)
    bytes += sizeof host + (host.ranks.size() + host.ports.size()) * sizeof(int);
  for (const compose::Tier& tier : composite.tiers) {
    for (const std::vector<int>& group : tier.groups) bytes += sizeof group + group.size() * sizeof(int);
    for (const auto& [members, trees] : tier.shapes)
      for (const compose::Tree& tree : trees) bytes += bytes_of(tree);
    for (const auto& trees : tier.of_roots)
      for (const compose::Tree& tree : trees) bytes += bytes_of(tree);
  }
  if (composite.at_root) {
    bytes += portfolio::memory_bytes(composite.at_root->schedule);
    for (const auto* devices : {&composite.at_root->exits, &composite.at_root->returns})
      for (const std::vector<int>& one : *devices) bytes += sizeof one + one.size() * sizeof(int);
  }
  return bytes;
}

std::size_t bytes_of(const Candidates& candidates) {
  std::size_t bytes = 0;
  for (const portfolio::Candidate& candidate : candidates)
    bytes += candidate.schedule.bytes() + (candidate.composite ? bytes_of(**candidate.composite) : 0);
  return bytes;
}

std::size_t bytes_of(const std::vector<portfolio::CompositeCandidate>& composites) {
  std::size_t bytes = 0;
  for (const portfolio::CompositeCandidate& one : composites)
    bytes += bytes_of(*one.composite) + (one.by_time ? one.by_time->bytes() : 0);
  return bytes;
}

// Candidates that all ranks of a process share, so that only one rank searches. Never destroyed: communicators may
// outlive static destruction.
class SharedCandidates {
 public:
  std::shared_ptr<const Candidates> find(const topology::Topology& topology, Collective collective, Rank root,
                                         const std::string& asked,
                                         std::unique_ptr<portfolio::ClusterPlanner>& planner) {
    const std::string key =
        fmt::format("{} {} {} {}", static_cast<int>(collective), root, asked, topology::to_json(topology).dump());
    const std::lock_guard lock(mutex_);  // held during the search, so that other ranks wait instead of searching, too
    const auto found = entries_.find(key);
    if (found != entries_.end())
      if (auto known = found->second.lock()) return known;
    auto made = std::make_shared<const Candidates>(portfolio::candidates(topology, collective, root, asked, planner));
    std::erase_if(entries_, [](const auto& entry) { return entry.second.expired(); });
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

const portfolio::CompositeCandidate* named(const std::vector<portfolio::CompositeCandidate>& all,
                                           const std::string& name) {
  const auto found = std::ranges::find_if(all, [&](const auto& one) { return one.name() == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

static_assert(schedule::kSlots == device::kSlotCount && schedule::kShortSlots == device::kShortSlotCount);

portfolio::Pipeline pipeline_of_hosts(std::size_t slot_bytes) {
  const auto bytes = static_cast<double>(slot_bytes);
  const bool short_slices_fit = bytes / kernels::kShortPart >= schedule::kLaneBytes;
  return {bytes, schedule::kSlots, schedule::kShortSlots, short_slices_fit ? schedule::kShortSlots : schedule::kSlots};
}

portfolio::Pipeline pipeline_of_devices(std::size_t slot_bytes) {
  const auto longest = static_cast<device::u64>(schedule::kLaneBytes);
  const int short_slots = schedule::kSlots << device::gpu::slot_shift_for(longest, slot_bytes);
  return {static_cast<double>(slot_bytes), schedule::kSlots, short_slots, schedule::kSlots};
}

ScheduleModel::ScheduleModel(topology::Topology topology, const portfolio::Pipeline& pipeline, Candidacy candidacy,
                             std::size_t most_kept_bytes)
    : topology_(std::move(topology)),
      hosts_(std::max(1, static_cast<int>(topology::cluster_of(topology_).hosts.size()))),
      pipeline_(pipeline),
      candidates_(most_kept_bytes),
      by_levels_(candidacy == Candidacy::hosts || portfolio::by_levels_alone(topology_)),
      counts_messages_(candidacy == Candidacy::hosts),
      composites_(most_kept_bytes) {}

std::shared_ptr<const ScheduleModel::Composites> ScheduleModel::composites(Collective collective, Rank root) {
  const Key key{collective, root};
  if (auto known = composites_.find(key)) return known;
  if (!planner_) planner_ = std::make_unique<portfolio::ClusterPlanner>(topology_);
  Composites planned = planner_->candidates(collective, root);
  for (portfolio::CompositeCandidate& one : planned)
    one.cost = one.cost.with_slots(pipeline_.short_slots, pipeline_.network_slots);
  auto made = std::make_shared<const Composites>(std::move(planned));
  return composites_.keep(key, made, bytes_of(*made));
}

const ScheduleModel::Foreseen& ScheduleModel::foreseen(const Key& key, const Composites& all, double bytes) {
  const auto& [known, known_bytes, last] = last_;
  if (!last.empty() && known == key && known_bytes == bytes) return last;
  Foreseen result;
  if (counts_messages_) {
    for (std::size_t index = 0; index < all.size(); ++index) {
      const compose::Cost& cost = all[index].cost;
      const double slice = cost.good_slice(bytes, pipeline_.slice_bytes);
      result.emplace_back(index,
                          cost.time_us(bytes, slice) + processor_us(key.first, cost, bytes, pipeline_.slice_bytes));
    }
    std::stable_sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    // Orders by time spare links waiting, not processors, and take long to make: they come last.
    std::ranges::stable_partition(result, [&](const auto& one) { return all[one.first].by_time == nullptr; });
    last_ = {key, bytes, std::move(result)};
    return std::get<Foreseen>(last_);
  }
  for (const auto& one : portfolio::ranked(all, pipeline_.simulated(bytes)))
    result.emplace_back(one.candidate, one.time_us);
  last_ = {key, bytes, std::move(result)};
  return std::get<Foreseen>(last_);
}

std::vector<ScheduleModel::Ranked> ScheduleModel::ranking_by_levels(Collective collective, Rank root, double bytes,
                                                                    const std::string& asked) {
  const auto all = composites(collective, root);
  std::vector<Ranked> ranked;
  for (const auto& [candidate, time_us] : foreseen({collective, root}, *all, bytes)) {
    const std::string name = (*all)[candidate].name();
    ranked.push_back({name, time_us, !asked.empty() && portfolio::answers_to(name, asked)});
  }
  composites_.keep({collective, root}, all, bytes_of(*all));  // predictions have made orders
  return ranked;
}

std::shared_ptr<const Candidates> ScheduleModel::candidates(Collective collective, Rank root,
                                                            const std::string& asked) {
  const Key key{collective, root};
  if (auto known = candidates_.find(key)) return known;
  Wanted& wanted = wanted_[key];
  if (!asked.empty()) wanted.asked = asked;
  auto made = shared_candidates().find(topology_, collective, root, wanted.asked, planner_);
  if (!wanted.added.empty()) {
    Candidates all = *made;
    all.insert(all.end(), wanted.added.begin(), wanted.added.end());
    made = std::make_shared<const Candidates>(std::move(all));
  }
  return candidates_.keep(key, made, bytes_of(*made));
}

std::vector<ScheduleModel::Ranked> ScheduleModel::ranking(Collective collective, Rank root, std::size_t bytes,
                                                          const Settings& settings) {
  const std::string asked = settings.algorithm(collective);
  std::vector<Ranked> ranked;
  if (by_levels_) {
    ranked = ranking_by_levels(collective, root,
                               schedule::buffer_bytes(collective, topology_.ranks, static_cast<double>(bytes)), asked);
    std::stable_partition(ranked.begin(), ranked.end(), [](const Ranked& one) { return one.asked; });
    return ranked;
  }
  const auto kept = candidates(collective, root, asked);
  const Candidates& all = *kept;
  for (const portfolio::Prediction& prediction : portfolio::predict(all, bytes, 1, pipeline_)) {
    const portfolio::Candidate& candidate = all[prediction.candidate];
    ranked.push_back({candidate.name, prediction.time_us, !asked.empty() && portfolio::answers_to(candidate, asked)});
  }
  candidates_.keep({collective, root}, kept, bytes_of(all));  // predictions have made flat forms
  if (ranked.empty())
    for (const portfolio::Candidate& candidate : all)
      ranked.push_back({candidate.name, 0, !asked.empty() && portfolio::answers_to(candidate, asked)});
  std::stable_partition(ranked.begin(), ranked.end(), [](const Ranked& one) { return one.asked; });
  return ranked;
}

bool ScheduleModel::add(Collective collective, Rank root, std::vector<portfolio::Candidate> more) {
  if (!takes_more()) return false;
  Candidates all = *candidates(collective, root);
  Candidates& added = wanted_[{collective, root}].added;
  const std::size_t before = added.size();
  for (portfolio::Candidate& candidate : more) {
    if (std::any_of(all.begin(), all.end(), [&](const auto& known) { return known.name == candidate.name; })) continue;
    added.push_back(candidate);
    all.push_back(std::move(candidate));
  }
  if (added.size() == before) return false;
  const std::size_t bytes = bytes_of(all);
  candidates_.keep({collective, root}, std::make_shared<const Candidates>(std::move(all)), bytes);
  return true;
}

ScheduleModel::Outline ScheduleModel::outline(Collective collective, Rank root, const std::string& name,
                                              std::size_t bytes, bool timed) {
  const double buffer = schedule::buffer_bytes(collective, topology_.ranks, static_cast<double>(bytes));
  if (by_levels_) {
    const auto all = composites(collective, root);
    if (const portfolio::CompositeCandidate* const found = named(*all, name)) {
      const compose::RankParts parts(found->composite);
      return {parts.layout(), parts.steps(), timed ? found->cost.busy_us(buffer) : 0};
    }
  }
  const schedule::Schedule flat = schedule(collective, root, name);
  return {schedule::layout_of(flat), flat.steps, timed ? schedule::linear_cost(flat).us_per_byte * buffer : 0};
}

std::optional<compose::Verified> ScheduleModel::composite(Collective collective, Rank root, const std::string& name) {
  if (by_levels_) {
    const auto all = composites(collective, root);
    const portfolio::CompositeCandidate* const found = named(*all, name);
    return found != nullptr ? std::optional(found->to_run()) : std::nullopt;
  }
  const auto all = candidates(collective, root);
  for (const portfolio::Candidate& candidate : *all)
    if (candidate.name == name) return candidate.schedule.composite();
  return std::nullopt;
}

schedule::Schedule ScheduleModel::schedule(Collective collective, Rank root, const std::string& name) {
  if (by_levels_) {
    if (const auto found = composite(collective, root, name)) return compose::expand(**found);
  } else {
    const auto all = candidates(collective, root);
    for (const portfolio::Candidate& candidate : *all)
      if (candidate.name == name) return *candidate.schedule;
  }
  fail(ErrorCode::internal_error, "topology '{}': no candidate is called '{}'", topology_.name, name);
}

}  // namespace sccl::runtime
