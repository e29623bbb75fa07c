#include "runtime/host/choosing/chooser.h"

#include <fcntl.h>

#include "base/error.h"
#include "base/settings/log.h"
#include "runtime/host/choosing/shared_ranking.h"
#include "runtime/waiting/waiter.h"

namespace sccl::runtime {
namespace {

// No rank completes such a call before all ranks have begun it.
bool joins_all(Collective collective) { return !info(collective).rooted; }

std::uint64_t packed(const TuningKey& key) {
  return static_cast<std::uint64_t>(key.root) << 32 | static_cast<std::uint64_t>(key.collective) << 16 |
         static_cast<std::uint64_t>(key.size.number) << 1 | (key.any_order ? 1u : 0u);
}

// Between the size class and the collective.
constexpr std::uint64_t kMappedBit = 1u << 15;
constexpr std::uint64_t kVendorBit = 1u << 14;

// Two hosts of one rank have one link: thresholds of two ranks serve.
bool serves_links(const Membership& membership) {
  if (!membership.links.topology || membership.ranks < 2) return false;
  return membership.links.named || membership.ranks > 2;
}

SharedResults::Host results_of_host(const Membership& membership) {
  const auto peer = [&membership](Rank rank) -> const Peer& {
    return membership.peers.at(static_cast<std::size_t>(rank));
  };
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < membership.ranks; ++rank)
    if (membership.control.members().of(rank).locality != Locality::remote) ranks.push_back(rank);
  const bool crowded = static_cast<int>(ranks.size()) > Waiter::cores();
  return {membership.control.plans(),
          membership.rank,
          std::move(ranks),
          crowded,
          [&control = membership.control](Rank rank) {
            return control.health().has_ended(rank) || control.health().stopped_process(rank) > 0;
          },
          [peer](Rank rank, int descriptor) {
            const Peer& owner = peer(rank);
            if (owner.shares_address_space()) return FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
            const std::string path = fmt::format("/proc/{}/fd/{}", owner.process, descriptor);
            return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
          }};
}

// One line for each new combination of collective and size class, and one when its race is settled.
void log_entry(const Membership& membership, const ChoiceEntry& entry, const std::string& what) {
  if (!log::enabled(log::Level::info, log::Subsystem::tuning)) return;
  std::string line =
      fmt::format("rank {}/{}: {} of {}: {} serves; {}", membership.rank, membership.ranks,
                  info(entry.key.collective).call_name, entry.key.size.text(), text(entry.serving.choice), what);
  for (const Ranked& one : entry.ranked)
    if (one.choice.planner == entry.serving.choice.planner && one.predicted_us > 0)
      line += fmt::format("; predicted {:.1f} us", one.predicted_us);
  if (entry.ranked.size() > 1 && entry.ranked[1].predicted_us > 0)
    line += fmt::format("; second {} predicted {:.1f} us", text(entry.ranked[1].choice), entry.ranked[1].predicted_us);
  log::info(log::Subsystem::tuning, "{}", line);
}

}  // namespace

Chooser::Chooser(const Membership& membership, VendorBackend* vendor)
    : membership_(membership),
      vendor_(std::make_unique<VendorCalls>(membership, vendor)),
      shared_results_(results_of_host(membership)),
      plans_(membership.rank, membership.ranks, &shared_results_),
      trials_(membership.control),
      record_(membership.rank == 0) {
  if (serves_links(membership_)) {
    schedule_model_ = std::make_unique<ScheduleModel>(
        *membership_.links.topology, pipeline_of_hosts(membership_.layout.slot_bytes()),
        membership_.links.named ? ScheduleModel::Candidacy::all : ScheduleModel::Candidacy::hosts);
    if (membership_.control.updates() != nullptr && schedule_model_->takes_more())
      background_synthesis_ = std::make_unique<BackgroundSynthesis>(
          *membership_.links.topology, *membership_.control.updates(),
          membership_.rank == 0 ? BackgroundSynthesis::Part::searches : BackgroundSynthesis::Part::listens);
  }
}

Chooser::~Chooser() { record_.keep(membership_.tuning.measured.place); }

const Chooser::Served& Chooser::begin(const CallSignature& call, std::size_t bytes, Buffers buffers,
                                      const CallWish* wish) {
  if (!trials_.none_pending()) collect(call.sequence);
  if (background_synthesis_ && background_synthesis_->due(call.sequence)) take_up_update();
  Entry& entry = wish != nullptr ? entry_with(call, bytes, *wish) : entry_of(call, bytes, buffers);
  if (joins_all(call.collective)) {
    trials_.note_joining(call.sequence);
    if (background_synthesis_ && membership_.rank == 0) background_synthesis_->announce(call.sequence);
  }
  return entry.settled ? entry.serving : take_turn(entry, call);
}

Chooser::Entry& Chooser::entry_of(const CallSignature& call, std::size_t bytes, Buffers buffers) {
  const TuningKey key = key_of(call.collective, call.root, call.type, bytes);
  const bool mapped = buffers == Buffers::mapped;
  const Vendor vendor = !mapped && vendor_->exist() && vendor_->choice().serves(call.collective, call.type)
                            ? Vendor::serves
                            : Vendor::none;
  const std::uint64_t number = packed(key) | (mapped ? kMappedBit : 0) | (vendor == Vendor::serves ? kVendorBit : 0);
  if (number == last_key_) return *last_entry_;
  auto& entry = entries_[number];
  if (!entry) entry = mapped ? make_mapped_entry(key) : make_entry(key, vendor);
  last_key_ = number;
  last_entry_ = entry.get();
  return *entry;
}

// Settled from the beginning; in a map of their own, so that calls without a wish look nothing more up.
Chooser::Entry& Chooser::entry_with(const CallSignature& call, std::size_t bytes, const CallWish& wish) {
  const TuningKey key = key_of(call.collective, call.root, call.type, bytes);
  const bool serves = vendor_->choice().serves(call.collective, call.type);
  auto& entry = wished_[{packed(key) | (serves ? kVendorBit : 0), wish}];
  if (!entry) {
    auto made = std::make_unique<Entry>();
    made->key = key;
    made->question = {key.collective, key.root, membership_.ranks, key.size};
    serve_wish(*made, wish, "asked for with the call", serves ? Vendor::serves : Vendor::none);
    entry = std::move(made);
  }
  last_key_ = ~std::uint64_t{0};
  last_entry_ = entry.get();
  return *entry;
}

std::unique_ptr<Chooser::Entry> Chooser::make_entry(const TuningKey& key, Vendor vendor) {
  auto entry = std::make_unique<Entry>();
  entry->key = key;
  entry->question = {key.collective, key.root, membership_.ranks, key.size};
  if (const CallWish* const wish = membership_.tuning.wishes.find(key.collective, key.size)) {
    serve_wish(*entry, *wish, "asked for by the tuner plugin", vendor);
    return entry;
  }
  const Settings& settings = membership_.settings;
  entry->ranked = ranking(entry->question, settings);
  if (vendor == Vendor::serves) vendor_->choice().add_to(entry->ranked, key, nullptr);
  want_better(key);
  if (take_measured(*entry, vendor)) return entry;
  if (settings.tune == TuneMode::online) {
    begin_race(*entry);
  } else {
    settle_at_once(*entry);
  }
  log_entry(membership_, *entry, entry->ranked.front().why);
  return entry;
}

std::vector<Ranked> Chooser::ranking(const Question& question, const Settings& settings) {
  const LearnedDispatcher& learned = membership_.tuning.measured.learned;
  if (!schedule_model_) return rank_on_host(question, settings, membership_.reach, learned);
  const auto rank = [&] { return rank_on_links(question, settings, *schedule_model_, learned); };
  return shared_results_.crowded() ? shared_ranking(shared_results_, question, settings, updates_, rank) : rank();
}

void Chooser::serve_wish(Entry& entry, const CallWish& wish, const char* why, Vendor vendor) {
  entry.ranked = ranking(entry.question, settings_with(membership_.settings, wish));
  if (vendor == Vendor::serves) vendor_->choice().add_to(entry.ranked, entry.key, &wish);
  settle_at_once(entry);
  log_entry(membership_, entry, why);
}

// Nothing is measured: a call in place makes one pass over the data, and no candidate needs less.
std::unique_ptr<Chooser::Entry> Chooser::make_mapped_entry(const TuningKey& key) {
  auto entry = std::make_unique<Entry>();
  entry->key = key;
  entry->question = {key.collective, key.root, membership_.ranks, key.size};
  Settings settings = membership_.settings;
  settings.tune = TuneMode::off;
  entry->ranked = rank_on_host(entry->question, settings, Reach::shared_space);
  settle_at_once(*entry);
  log_entry(membership_, *entry, "every rank's buffers are of ncclMemAlloc");
  return entry;
}

void Chooser::settle_at_once(Entry& entry) {
  entry.entrants.push_back({entry.ranked.front().choice, nullptr});
  entry.serving = {entry.entrants.front().choice, plan(entry, 0)};
  entry.settled = true;
}

// A choice from the cache is used only if this communicator could have made it itself.
bool Chooser::take_measured(Entry& entry, Vendor vendor) {
  const Settings& settings = membership_.settings;
  if (settings.tune == TuneMode::off || !settings.algorithm(entry.key.collective).empty() ||
      settings.protocol != ProtocolChoice::automatic || settings.chunk_bytes != 0)
    return false;
  const auto found = membership_.tuning.measured.table.find(entry.key);
  if (found == membership_.tuning.measured.table.end()) return false;
  const Choice& choice = found->second.choice;
  if (choice.form == Form::direct && !membership_.reaches_buffers()) return false;
  if (is_vendor(choice) && (vendor == Vendor::none || !vendor_->choice().may_change_sums(entry.key))) return false;
  try {
    std::vector<Ranked> both{entry.ranked.front(), {choice, found->second.us, "measured before"}};
    if (!entry.key.any_order && !is_vendor(choice)) keep_same_sums(both, entry.question);
    if (both.size() < 2) return false;
    entry.entrants.push_back({choice, nullptr});
    entry.serving = {choice, plan(entry, 0)};
  } catch (const Error& error) {
    entry.entrants.clear();
    log::info(log::Subsystem::tuning, "the measured choice {} cannot serve: {}", text(choice), error.what());
    return false;
  }
  entry.settled = true;
  log_entry(membership_, entry,
            fmt::format("measured before: {:.1f} us{}", found->second.us,
                        found->second.second.empty()
                            ? ""
                            : fmt::format(", {} {:.1f} us", found->second.second, found->second.second_us)));
  return true;
}

// A search takes a different time in every run, so the switch to its result comes at a different call. Therefore
// reductions use the result only if the user allows other orders of summation.
void Chooser::want_better(const TuningKey& key) {
  const bool may_switch = !info(key.collective).reduces || membership_.settings.sum_order == SumOrder::free;
  if (background_synthesis_ && may_switch && membership_.settings.algorithm(key.collective).empty())
    background_synthesis_->want(key.collective, key.root);
}

void Chooser::take_up_update() {
  BackgroundSynthesis::Result result = background_synthesis_->take();
  const std::size_t count = result.candidates.size();
  if (!schedule_model_->add(result.collective, result.root, std::move(result.candidates))) return;
  ++updates_;
  log::info(log::Subsystem::tuning, "rank {}/{}: {}: {} schedules from {} take part from now on", membership_.rank,
            membership_.ranks, info(result.collective).call_name, count, result.origin);
  const auto concerned = [&](const Entry& entry) {
    return entry.key.collective == result.collective && entry.key.root == result.root;
  };
  trials_.forget_if(concerned);
  std::erase_if(entries_, [&](const auto& known) { return concerned(*known.second); });
  last_key_ = ~std::uint64_t{0};
  last_entry_ = nullptr;
}

void Chooser::interrupt() {
  if (background_synthesis_) background_synthesis_->interrupt();
}

// Removes candidates whose results differ in bits from those of the first candidate, unless the user allows that.
void Chooser::keep_same_sums(std::vector<Ranked>& ranked, const Question& question) {
  if (membership_.settings.sum_order == SumOrder::fixed)
    runtime::keep_same_sums(ranked, question, plans_, schedule_model_.get());
}

void Chooser::begin_race(Entry& entry) {
  if (!entry.key.any_order) keep_same_sums(entry.ranked, entry.question);
  std::vector<SliceRange> slices;
  for (const Ranked& one : entry.ranked) {
    entry.entrants.push_back({one.choice, nullptr});
    const Plan* const made = plan(entry, entry.entrants.size() - 1);
    slices.push_back(made == nullptr
                         ? SliceRange{}
                         : slices_of(entry.question, one.choice, made->layout, membership_.layout.slot_bytes()));
  }
  entry.autotuner = std::make_unique<Autotuner>(slices);
  entry.settled = entry.autotuner->settled();
  entry.serving = entry.entrants.front();
}

// Null for the vendor's library.
const Plan* Chooser::plan(Entry& entry, std::size_t entrant) {
  Served& served = entry.entrants[entrant];
  if (served.plan == nullptr && !is_vendor(served.choice))
    served.plan = &plans_.find(entry.key.collective, entry.key.root, served.choice, schedule_model_.get());
  return served.plan;
}

const Chooser::Served& Chooser::take_turn(Entry& entry, const CallSignature& call) {
  const Autotuner::Turn turn = entry.autotuner->next(
      trials_.may_begin(call.collective) ? Autotuner::Timing::possible : Autotuner::Timing::impossible);
  entry.serving = {entry.choice_of(turn), entry.entrants[static_cast<std::size_t>(turn.entrant)].plan};
  if (turn.timed) trials_.begin(entry, call.sequence);
  return entry.serving;
}

void Chooser::collect(std::uint64_t call) {
  while (const auto trial = trials_.next(call)) {
    Entry& entry = *trial->entry;
    if (entry.settled) continue;
    const std::uint64_t ns = trials_.duration_ns(*trial);
    entry.autotuner->measured(ns);
    record_.note_call(entry.key, entry.choice_of(entry.autotuner->last_answered()), trial->call, ns);
    if (entry.autotuner->settled()) settle(entry);
  }
}

void Chooser::settle(Entry& entry) {
  entry.settled = true;
  const Autotuner::Standing winner = entry.autotuner->winner();
  const Autotuner::Standing second = entry.autotuner->second();
  entry.serving = entry.entrants[static_cast<std::size_t>(winner.entrant)];
  if (winner.slice != 0) entry.serving.choice.slice_bytes = winner.slice;
  TunedChoice tuned{entry.serving.choice, static_cast<double>(winner.ns) / 1e3, "", 0};
  if (second.entrant >= 0) {
    tuned.second = text(entry.entrants[static_cast<std::size_t>(second.entrant)].choice);
    tuned.second_us = static_cast<double>(second.ns) / 1e3;
  }
  const std::string slices = winner.slice != 0 ? fmt::format(" in slices of {} bytes", winner.slice) : "";
  const std::string others =
      tuned.second.empty() ? "" : fmt::format(", then {} {:.1f} us", tuned.second, tuned.second_us);
  log_entry(membership_, entry, fmt::format("measured {:.1f} us{}{}", tuned.us, slices, others));
  record_.note_winner(entry.key, std::move(tuned));
}

}  // namespace sccl::runtime
