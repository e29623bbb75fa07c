#include "runtime/rehearsal.h"

#include <bit>
#include <mutex>

#include "base/error.h"
#include "base/log.h"
#include "topology/json.h"

namespace sccl::runtime {
namespace {

using Candidates = std::vector<portfolio::Candidate>;

// Ranks that are threads of one process search once. Never destroyed: communicators may outlive static destruction.
class SharedCandidates {
 public:
  std::shared_ptr<const Candidates> find(const topology::Topology& topology, Collective collective, Rank root) {
    const std::string key =
        fmt::format("{} {} {}", static_cast<int>(collective), root, topology::to_json(topology).dump());
    const std::lock_guard lock(mutex_);  // held while searching, so that the others wait instead of doing the same
    if (auto known = entries_[key].lock()) return known;
    auto made = std::make_shared<const Candidates>(portfolio::candidates(topology, collective, root));
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

}  // namespace

Rehearsal::Rehearsal(topology::Topology topology, const portfolio::Pipeline& pipeline)
    : topology_(std::move(topology)), pipeline_(pipeline) {}

const Candidates& Rehearsal::candidates(Collective collective, Rank root) {
  auto& kept = candidates_[{collective, root}];
  if (!kept) kept = shared_candidates().find(topology_, collective, root);
  return *kept;
}

Choice Rehearsal::choose(const Call& call, const Settings& settings) {
  Choice choice;
  const std::size_t bytes = call.count * call.element_bytes;
  if (settings.protocol == ProtocolChoice::ll ||
      (settings.protocol == ProtocolChoice::automatic && bytes <= kAutomaticLlBytes))
    choice.protocol = ProtocolChoice::ll;
  const std::size_t count_class = std::bit_ceil(call.count);
  std::string& chosen = chosen_[{call.collective, call.root, count_class, call.element_bytes}];
  if (chosen.empty()) {
    const Candidates& all = candidates(call.collective, call.root);
    const auto predictions = portfolio::predict(all, count_class, call.element_bytes, pipeline_);
    const std::string asked = settings.algorithm(call.collective);
    for (const portfolio::Prediction& prediction : predictions)
      if (chosen.empty() && (asked.empty() || portfolio::answers_to(all[prediction.candidate], asked)))
        chosen = all[prediction.candidate].name;
    if (chosen.empty()) chosen = all[predictions.empty() ? 0 : predictions.front().candidate].name;
    if (predictions.size() > 1)
      log::info(log::Subsystem::tuning, "{} up to {} bytes on {}: {} predicted {:.1f} us, then {} {:.1f} us; {} serves",
                info(call.collective).call_name, count_class * call.element_bytes, topology_.name,
                all[predictions[0].candidate].name, predictions[0].time_us, all[predictions[1].candidate].name,
                predictions[1].time_us, chosen);
  }
  choice.planner = chosen;
  return choice;
}

const schedule::Schedule& Rehearsal::schedule(Collective collective, Rank root, const std::string& name) {
  for (const portfolio::Candidate& candidate : candidates(collective, root))
    if (candidate.name == name) return candidate.schedule;
  fail(ErrorCode::internal_error, "topology '{}': no candidate is called '{}'", topology_.name, name);
}

}  // namespace sccl::runtime
