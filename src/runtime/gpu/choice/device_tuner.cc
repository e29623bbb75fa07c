#include "runtime/gpu/choice/device_tuner.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/os/sealed_file.h"
#include "base/settings/log.h"
#include "runtime/choice/tuning/autotuner.h"
#include "runtime/membership/tuner_situation.h"

namespace sccl::runtime {
namespace {

constexpr unsigned kEventWithTiming = 0;
constexpr int kRunsToJudge = 3;
constexpr std::uint64_t kClearPercent = 97;  // of the usual choice's time

}  // namespace

ExplorationTurn exploration_turn(std::uint64_t call, int entrants) {
  constexpr std::uint64_t kPeriod = Autotuner::kPeriod;
  const auto challengers = static_cast<std::uint64_t>(entrants - 1);
  const std::uint64_t round = (call - 1) / kPeriod;
  if (challengers == 0 || round >= kRunsOfEntrant * challengers) return {};
  if (call % kPeriod == 0) return {static_cast<int>(1 + round % challengers), true};
  return {0, call % kPeriod == kPeriod / 2};
}

DeviceTuner::DeviceTuner(Membership& membership, PlanCache& plans, ScheduleModel* schedule_model,
                         const VendorChoice& vendor)
    : membership_(membership),
      driver_(*membership.on_device->device.driver),
      plans_(plans),
      schedule_model_(schedule_model),
      vendor_(vendor) {}

DeviceTuner::~DeviceTuner() {
  try {
    const gpu::Current current(membership_.on_device->device);
    read_clocks();
    gather();
    for (const Clock& clock : clocks_)
      for (void* const event : {clock.begin, clock.end})
        if (event != nullptr) driver_.event_destroy(event);
    if (membership_.rank == 0) store();
  } catch (const std::exception& error) {
    log::info(log::Subsystem::tuning, "measured times are not kept: {}", error.what());
  }
}

Choice DeviceTuner::choose(const CollectiveRequest& request, std::size_t bytes, const Choice& usual,
                           Captured captured) {
  armed_ = nullptr;
  const TuneMode mode = membership_.settings.tune;
  const bool anything =
      mode == TuneMode::online || (mode == TuneMode::load && !membership_.tuning.measured.table.empty());
  if (!anything || membership_.ranks < 2 || bytes == 0) return usual;
  Entry& entry = entry_of(key_of(request.collective, request.root, request.type, bytes), usual,
                          vendor_.serves(request.collective, request.type));
  if (entry.measured_before) return entry.entrants.front().choice;
  if (captured == Captured::yes || entry.entrants.size() < 2) return usual;
  const ExplorationTurn turn = exploration_turn(++entry.calls, static_cast<int>(entry.entrants.size()));
  if (turn.timed) arm(entry, turn.entrant);
  return turn.entrant == 0 ? usual : entry.entrants[static_cast<std::size_t>(turn.entrant)].choice;
}

DeviceTuner::Entry& DeviceTuner::entry_of(const TuningKey& key, const Choice& usual, bool vendor_serves) {
  std::unique_ptr<Entry>& known = entries_[key];
  if (known) return *known;
  auto entry = std::make_unique<Entry>();
  entry->key = key;
  const Question question{key.collective, key.root, membership_.ranks, key.size};
  const Settings& settings = membership_.settings;
  entry->entrants.push_back({usual, 0, "usual"});
  if (!take_measured(*entry, question, vendor_serves) && settings.tune == TuneMode::online &&
      driver_.event_elapsed != nullptr) {
    const auto others = schedule_model_ != nullptr
                            ? rank_on_device_links(question, settings, *schedule_model_, device_reach(membership_))
                            : rank_on_device(question, settings, device_reach(membership_));
    for (const Ranked& other : others)
      if (other.choice != usual && entry->entrants.size() < kMostEntrants) entry->entrants.push_back(other);
    if (!key.any_order && settings.sum_order == SumOrder::fixed)
      keep_same_sums(entry->entrants, question, plans_, schedule_model_);
    if (vendor_serves) vendor_.add_to(entry->entrants, key, nullptr);
  }
  entry->samples.resize(entry->entrants.size());
  return *(known = std::move(entry));
}

// A choice from the cache serves only if this communicator could have made it itself.
bool DeviceTuner::take_measured(Entry& entry, const Question& question, bool vendor_serves) {
  const Settings& settings = membership_.settings;
  const auto found = membership_.tuning.measured.table.find(entry.key);
  if (found == membership_.tuning.measured.table.end() || !settings.algorithm(entry.key.collective).empty() ||
      settings.protocol != ProtocolChoice::automatic || settings.chunk_bytes != 0)
    return false;
  const Choice& choice = found->second.choice;
  if ((choice.form == Form::direct && !device_reach(membership_).direct) ||
      (choice.protocol == ProtocolChoice::ll128 && !device_reach(membership_).lines))
    return false;
  if (is_vendor(choice) && (!vendor_serves || !vendor_.may_change_sums(entry.key))) return false;
  try {
    std::vector<Ranked> both{entry.entrants.front(), {choice, found->second.us, "measured before"}};
    if (!is_vendor(choice)) plans_.find(question.collective, question.root, choice, schedule_model_);
    if (!is_vendor(choice) && !entry.key.any_order && settings.sum_order == SumOrder::fixed)
      keep_same_sums(both, question, plans_, schedule_model_);
    if (both.size() < 2) return false;
  } catch (const Error& error) {
    log::info(log::Subsystem::tuning, "the measured choice {} cannot serve: {}", text(choice), error.what());
    return false;
  }
  entry.entrants.front() = {choice, found->second.us, "measured before"};
  entry.measured_before = true;
  log::info(log::Subsystem::tuning, "rank {}/{}: {} of {}: {} serves; measured before: {:.1f} us", membership_.rank,
            membership_.ranks, info(entry.key.collective).call_name, entry.key.size.text(), text(choice),
            found->second.us);
  return true;
}

// All ranks number trials alike, so a trial is counted even if no clock is free or the driver has no event for it: then
// this rank publishes no time.
void DeviceTuner::arm(Entry& entry, int entrant) {
  ++trials_;
  read_clocks();
  gather();
  if (membership_.rank == 0) pending_.push_back({&entry, entrant, trials_});
  const auto free = std::find_if(clocks_.begin(), clocks_.end(),
                                 [](const Clock& clock) { return clock.trial == 0 && clock.taken_for == 0; });
  if (free == clocks_.end()) return;
  const gpu::RelaxedCapture relaxed(driver_);
  for (void** const event : {&free->begin, &free->end})
    if (*event == nullptr && driver_.event_create(event, kEventWithTiming) != 0) return;
  armed_ = &*free;
}

DeviceTuner::Clock* DeviceTuner::take_clock() {
  if (armed_ != nullptr) armed_->taken_for = trials_;
  return std::exchange(armed_, nullptr);
}

void DeviceTuner::before_launch(Clock* clock, gpu::Stream stream) {
  if (clock != nullptr && driver_.event_record(clock->begin, stream) != 0) clock->taken_for = 0;
}

void DeviceTuner::after_launch(Clock* clock, gpu::Stream stream) {
  if (clock == nullptr) return;
  const std::uint64_t trial = std::exchange(clock->taken_for, 0);
  if (trial != 0 && driver_.event_record(clock->end, stream) == 0) clock->trial = trial;
}

void DeviceTuner::read_clocks() {
  const gpu::RelaxedCapture relaxed(driver_);
  for (Clock& clock : clocks_) {
    if (clock.trial == 0 || driver_.event_query(clock.end) == gpu::kNotReady) continue;
    float milliseconds = 0;
    if (driver_.event_elapsed(&milliseconds, clock.begin, clock.end) == 0)
      tell(clock.trial,
           std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6)));
    clock.trial = 0;
  }
}

// Overwrites the time of a much earlier trial, which rank 0 has read by now.
void DeviceTuner::tell(std::uint64_t trial, std::uint64_t ns) {
  membership_.control.trials().publish_duration(trial, ns);
}

void DeviceTuner::gather() {
  std::erase_if(pending_, [&](const Trial& trial) {
    if (trials_ - trial.number >= Trials::kKept) return true;
    std::uint64_t least_ns = 0;
    const Trials::Found found = membership_.control.trials().least_duration(trial.number, least_ns);
    if (found != Trials::Found::complete) return found == Trials::Found::replaced;
    Samples& samples = trial.entry->samples[static_cast<std::size_t>(trial.entrant)];
    samples.least_ns = samples.count++ == 0 ? least_ns : std::min(samples.least_ns, least_ns);
    return true;
  });
}

void DeviceTuner::store() const {
  TuningTable table;
  for (const auto& [key, entry] : entries_) {
    const auto& samples = entry->samples;
    const bool judged = samples.size() > 1 && std::all_of(samples.begin(), samples.end(),
                                                          [](const Samples& one) { return one.count >= kRunsToJudge; });
    if (!judged) continue;
    const auto best = std::min_element(samples.begin(), samples.end(),
                                       [](const Samples& a, const Samples& b) { return a.least_ns < b.least_ns; });
    const bool clear = best->least_ns * 100 <= samples.front().least_ns * kClearPercent;
    const std::size_t winner = clear ? static_cast<std::size_t>(best - samples.begin()) : 0;
    const std::size_t second = winner == 0 ? 1 : 0;
    table[key] = {entry->entrants[winner].choice, static_cast<double>(samples[winner].least_ns) / 1e3,
                  text(entry->entrants[second].choice), static_cast<double>(samples[second].least_ns) / 1e3};
    log::info(log::Subsystem::tuning, "{} of {}: {} serves the next communicators: measured {:.1f} us, {} {:.1f} us",
              info(key.collective).call_name, key.size.text(), text(table[key].choice), table[key].us,
              table[key].second, table[key].second_us);
  }
  if (table.empty()) return;
  const auto folder = cache_folder();
  if (folder && store_tuning(*folder, membership_.tuning.measured.place, table)) return;
  log::info(log::Subsystem::tuning, "measured times are not kept: {} cannot be written (SCCL_CACHE_DIR)",
            folder ? folder->string() : "no folder");
}

}  // namespace sccl::runtime
