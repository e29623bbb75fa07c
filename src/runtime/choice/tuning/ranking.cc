#include "runtime/choice/tuning/ranking.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "kernels/device/connection.h"
#include "planners/planners.h"
#include "schedule/layout.h"
#include "schedule/simulation/cost.h"

namespace sccl::runtime {
namespace {

using planners::Family;

constexpr std::size_t kLeastSlicedBytes = 16 * 1024;
constexpr std::size_t kSlotParts = 4;  // the least slice is a slot divided by this
constexpr std::size_t kMostDirectSlice = 1024 * 1024;
constexpr std::size_t kLeastDirectBytes = 16 * 1024;
// Data that goes through slots is written and read once more, so a form without slots may be twice as slow by the
// simulator.
constexpr double kMostBehind = 2;
// Enough bytes to distinguish the planners. More bytes would make the simulation slower.
constexpr std::size_t kMostSimulatedBytes = 4 << 20;

std::size_t longest_chunk(const schedule::ChunkLayout& layout, std::size_t bytes) {
  return schedule::extent_of(layout, bytes, 1).longest;
}

// Adds entrants after the first.
void add_others(std::vector<Ranked>& ranked, const Question& question, const Settings& settings, Reach reach) {
  const std::size_t bytes = question.size.typical_bytes();
  const topology::Topology links = topology::host(question.ranks);
  std::vector<Ranked> others;
  for (const planners::Planner& planner : planners::table()) {
    const std::string name(planner.name);
    if (!planner.sensible(bytes, question.ranks)) continue;
    auto schedule = planner.plan(links, question.collective, question.root);
    if (!schedule) continue;
    const std::size_t longest = longest_chunk(schedule::layout_of(*schedule), bytes);
    std::vector<portfolio::Candidate> alone;
    alone.push_back({name, portfolio::Origin::planner, *std::move(schedule)});
    const auto predicted = portfolio::predict(alone, std::min(bytes, kMostSimulatedBytes), 1, {});
    const double us = predicted.empty() ? 0 : predicted.front().time_us;
    const auto add = [&](Form form, ProtocolChoice protocol) {
      const Choice choice{name, form, protocol, 0};
      if (choice != ranked.front().choice) others.push_back({choice, us, "next by the simulator"});
    };
    if (settings.protocol == ProtocolChoice::automatic) {
      if (reach != Reach::none && planner.family == Family::star && bytes >= kLeastDirectBytes)
        add(Form::direct, ProtocolChoice::simple);
      add(Form::slots, ProtocolChoice::simple);
      if (longest <= most_ll_bytes(question.collective, links.ranks)) add(Form::slots, ProtocolChoice::ll);
    } else {
      add(ranked.front().choice.form, ranked.front().choice.protocol);
    }
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const Ranked& a, const Ranked& b) { return a.predicted_us < b.predicted_us; });
  for (Ranked& other : others)
    if (ranked.size() < kMostEntrants) ranked.push_back(std::move(other));
}

// Moves the learned candidate to the front. False where nothing was learned, a candidate was asked for, or these links
// have no candidate of the learned name: the predictions then decide.
bool put_learned_first(std::vector<ScheduleModel::Ranked>& all, const Question& question,
                       const ScheduleModel& schedule_model, const LearnedDispatcher& learned) {
  const auto machine = learned.find(question.collective);
  if (machine == learned.end() || all.front().asked) return false;
  const int hosts = schedule_model.hosts();
  const int ranks_per_host = std::max(1, (question.ranks + hosts / 2) / hosts);
  const Choice& choice = machine->second.choose({question.size.typical_bytes(), hosts, ranks_per_host});
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == choice.planner; });
  if (found == all.end()) return false;
  std::rotate(all.begin(), found, found + 1);
  return true;
}

}  // namespace

std::vector<Ranked> rank_on_host(const Question& question, const Settings& settings, Reach reach,
                                 const LearnedDispatcher& learned) {
  std::vector<Ranked> ranked;
  const CallShape shape{question.collective, question.size.typical_bytes(), question.ranks};
  const bool asked = planners::find(settings.algorithm(question.collective)) != nullptr;
  ranked.push_back(
      {choose(shape, settings, reach), 0, asked ? "asked for by SCCL_ALGO" : "thresholds measured on the host"});
  if (question.ranks == 1) return ranked;
  const auto machine = learned.find(question.collective);
  if (!asked && settings.protocol == ProtocolChoice::automatic && machine != learned.end()) {
    const Choice& choice = machine->second.choose({question.size.typical_bytes(), 1, question.ranks});
    const planners::Planner* planner = planners::find(choice.planner);
    const bool possible = planner != nullptr &&
                          (choice.form == Form::slots || (reach != Reach::none && planner->family == Family::star)) &&
                          planner->plan(topology::host(question.ranks), question.collective, question.root);
    if (possible) ranked.front() = {choice, 0, "learned by sccl tune"};
  }
  if (!asked && settings.tune == TuneMode::online) add_others(ranked, question, settings, reach);
  for (Ranked& one : ranked) one.choice.slice_bytes = settings.chunk_bytes;
  return ranked;
}

std::vector<Ranked> rank_on_device(const Question& question, const Settings& settings, DeviceReach reach) {
  std::vector<Ranked> ranked;
  const bool asked = planners::find(settings.algorithm(question.collective)) != nullptr;
  ranked.push_back(
      {choose_on_device({question.collective, question.size.typical_bytes(), question.ranks}, settings, reach), 0,
       asked ? "asked for by SCCL_ALGO" : "thresholds"});
  if (!asked && question.ranks > 1 && settings.tune == TuneMode::online)
    add_others(ranked, question, settings, reach.direct ? Reach::shared_space : Reach::none);
  return ranked;
}

void keep_same_sums(std::vector<Ranked>& ranked, const Question& question, PlanCache& plans,
                    ScheduleModel* schedule_model) {
  const auto order = [&](const Choice& choice) {
    const auto stars = choice.form == Form::direct ? schedule::Stars::fused : schedule::Stars::by_step;
    return plans.find(question.collective, question.root, choice, schedule_model).sum_order(stars);
  };
  const std::uint64_t wanted = order(ranked.front().choice);
  std::erase_if(ranked, [&](const Ranked& one) { return order(one.choice) != wanted; });
}

std::vector<Ranked> rank_on_links(const Question& question, const Settings& settings, ScheduleModel& schedule_model,
                                  const LearnedDispatcher& learned) {
  const std::size_t bytes = question.size.typical_bytes();
  const bool ll = settings.protocol == ProtocolChoice::ll ||
                  (settings.protocol == ProtocolChoice::automatic && bytes <= kAutomaticLlBytes);
  std::vector<Ranked> ranked;
  auto all = schedule_model.ranking(question.collective, question.root, bytes, settings);
  const bool by_learning = put_learned_first(all, question, schedule_model, learned);
  for (const ScheduleModel::Ranked& one : all) {
    if (ranked.size() == kMostEntrants) break;
    // If the first schedule was asked for, only schedules that were asked for are compared.
    if (!ranked.empty() && ranked.front().why.starts_with("asked") && !one.asked) break;
    const Choice choice{one.name, Form::slots, ll ? ProtocolChoice::ll : ProtocolChoice::simple, settings.chunk_bytes};
    const bool first = ranked.empty();
    ranked.push_back({choice, one.predicted_us,
                      one.asked              ? "asked for by SCCL_ALGO"
                      : first && by_learning ? "learned by sccl tune"
                                             : "predicted fastest"});
  }
  return ranked;
}

std::optional<Choice> direct_on_links(const Question& question, const Settings& settings,
                                      ScheduleModel& schedule_model) {
  const std::size_t bytes = question.size.typical_bytes();
  const bool wanted = settings.protocol == ProtocolChoice::direct ||
                      (settings.protocol == ProtocolChoice::automatic && bytes > kDeviceLlBytes);
  if (!wanted || question.ranks == 1) return std::nullopt;
  const auto ranked = schedule_model.ranking(question.collective, question.root, bytes, settings);
  const auto one_hop = std::find_if(ranked.begin(), ranked.end(),
                                    [](const auto& one) { return planners::belongs(one.name, Family::star); });
  if (one_hop == ranked.end() || (ranked.front().asked && !one_hop->asked)) return std::nullopt;
  if (!one_hop->asked && one_hop->predicted_us > kMostBehind * ranked.front().predicted_us) return std::nullopt;
  return Choice{one_hop->name, Form::direct, ProtocolChoice::simple, settings.chunk_bytes};
}

std::vector<Ranked> rank_on_device_links(const Question& question, const Settings& settings,
                                         ScheduleModel& schedule_model, DeviceReach reach) {
  const std::size_t bytes = question.size.typical_bytes();
  std::vector<Ranked> ranked = rank_on_links(question, settings, schedule_model);
  for (Ranked& one : ranked) {
    // Where links have no times the cost of bytes is unknown.
    const auto outline =
        schedule_model.outline(question.collective, question.root, one.choice.planner, bytes, one.predicted_us > 0);
    const std::size_t longest = longest_chunk(outline.layout, bytes);
    const auto [steps, busiest_us] = std::pair(outline.steps, outline.busiest_us);
    one.choice.protocol = busiest_us > 0 || settings.protocol != ProtocolChoice::automatic
                              ? device_protocol({longest, steps, busiest_us}, settings, reach.lines)
                          : longest <= device::kLlPayloadBytes ? ProtocolChoice::ll
                                                               : ProtocolChoice::simple;
  }
  return ranked;
}

SliceRange slices_of(const Question& question, const Choice& choice, const schedule::ChunkLayout& layout,
                     std::size_t slot_bytes) {
  const std::size_t longest = longest_chunk(layout, question.size.typical_bytes());
  if (question.ranks == 1 || choice.slice_bytes != 0) return {};
  if (choice.protocol == ProtocolChoice::ll || longest < 2 * kLeastSlicedBytes) return {};
  const std::size_t most = std::bit_ceil(longest);
  if (choice.form == Form::direct) return {kLeastSlicedBytes, std::min(most, kMostDirectSlice)};
  return {std::bit_floor(slot_bytes) / kSlotParts, std::min(most, std::bit_floor(slot_bytes))};
}

}  // namespace sccl::runtime
