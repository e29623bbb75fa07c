#include "runtime/control/arrivals.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/settings/log.h"
#include "base/splitmix.h"

namespace sccl::runtime {
namespace {

constexpr std::uint64_t kSecondNs = 1000000000;
constexpr std::uint64_t kMinuteNs = 60 * kSecondNs;
// Arrivals that are closer are nobody's concern.
constexpr double kWorthTellingUs = 100;
// After a measured call that is short up to 46 others are passed over, 23 in the mean: with fewer a repeated AllReduce
// of 8 bytes would take over 1 % more instructions (bench/instructions).
constexpr std::uint64_t kGaps = 47;

std::vector<Rank> ranks_of_this_host(const Members& members) {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < members.ranks(); ++rank)
    if (members.of(rank).locality != Locality::remote) ranks.push_back(rank);
  return ranks;
}

std::uint64_t key_of(const ArrivalKind& kind) {
  return (static_cast<std::uint64_t>(kind.collective) + 1) << 32 | static_cast<std::uint32_t>(kind.size_class);
}

ArrivalKind kind_of(std::uint64_t key) {
  return {static_cast<Collective>((key >> 32) - 1), static_cast<int>(static_cast<std::uint32_t>(key))};
}

LastArrivals last_arrivals(const SharedState& state) {
  return {state.arrival.sums.last.load(std::memory_order_relaxed),
          state.arrival.sums.behind_ns.load(std::memory_order_relaxed)};
}

// Null where there are more kinds than room.
ArrivalSums::Kind* find(ArrivalSums& sums, const ArrivalKind& kind) {
  const std::uint64_t key = key_of(kind);
  const std::size_t first = mix(key) % sums.kinds.size();
  for (std::size_t i = 0; i < sums.kinds.size(); ++i) {
    ArrivalSums::Kind& entry = sums.kinds[(first + i) % sums.kinds.size()];
    std::uint64_t found = entry.key.load(std::memory_order_relaxed);
    if (found == key) return &entry;
    // Of ranks that come with a new kind at a time one puts it here; a key never changes again.
    if (found == 0 && entry.key.compare_exchange_strong(found, key, std::memory_order_relaxed)) return &entry;
    if (found == key) return &entry;
  }
  return nullptr;
}

}  // namespace

ArrivalMeter::ArrivalMeter(const ControlPlane& control, std::string title)
    : control_(control), title_(std::move(title)), ranks_(ranks_of_this_host(control.members())) {
  const Members& members = control.members();
  const auto own = std::find(ranks_.begin(), ranks_.end(), members.rank);
  turn_ = 1 + static_cast<std::uint64_t>(own - ranks_.begin());
  arrivals_.resize(ranks_.size());
  scratch_.reserve(ranks_.size());
  if (ranks_.size() > 1 && members.rank == ranks_.front()) told_.resize(ranks_.size());
}

void ArrivalMeter::enter(std::uint64_t call, const ArrivalKind& kind, std::size_t bytes, std::uint64_t now_ns) {
  if (bytes >= kLongBytes) {
    next_ = call + 1;
  } else if (call >= next_short_) {
    next_ = next_short_ = call + 1 + mix(call) % kGaps;
  } else {
    next_ = next_short_;
    return;
  }
  kinds_[++measured_ % kinds_.size()] = kind;
  control_.members().own().arrival.records[measured_ % ArrivalState::kKept].publish(measured_, now_ns);
  entered_ns_ = now_ns;
  inside_ = true;
  if (turn_ < measured_) fold(now_ns);
}

void ArrivalMeter::leave(std::uint64_t now_ns) {
  inside_ = false;
  ArrivalSums& own = control_.members().own().arrival.sums;
  own.calls.store(own.calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  own.in_calls_ns.store(own.in_calls_ns.load(std::memory_order_relaxed) + (now_ns - entered_ns_),
                        std::memory_order_relaxed);
}

std::uint64_t ArrivalMeter::last_arrival_ns() {
  bool replaced = false;
  return read_arrivals(measured_, replaced) ? *std::max_element(arrivals_.begin(), arrivals_.end()) : 0;
}

// A call with a root lets ranks go before others have come: its turn comes again until all have, or until a rank is so
// far ahead that its record is gone.
void ArrivalMeter::fold(std::uint64_t now_ns) {
  if (ranks_.size() < 2) {
    turn_ = measured_;
    return;
  }
  for (; turn_ < measured_; turn_ += ranks_.size()) {
    bool replaced = turn_ + kinds_.size() <= measured_;
    if (!replaced && !read_arrivals(turn_, replaced) && !replaced) break;
    if (!replaced) add(kinds_[turn_ % kinds_.size()]);
  }
  if (!told_.empty() && now_ns >= next_look_ns_) tell(now_ns);
}

bool ArrivalMeter::read_arrivals(std::uint64_t number, bool& replaced) {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const ArrivalRecord& record = control_.members().state(ranks_[i]).arrival.records[number % ArrivalState::kKept];
    const ArrivalRecord::Found found = record.read(number, arrivals_[i]);
    replaced = found == ArrivalRecord::Found::replaced;
    if (found != ArrivalRecord::Found::there) return false;
  }
  return true;
}

void ArrivalMeter::add(const ArrivalKind& kind) {
  const ArrivalSpread spread = spread_of(arrivals_, scratch_);
  const Members& members = control_.members();
  ArrivalSums& last = members.state(ranks_[spread.last]).arrival.sums;
  last.behind_ns.fetch_add(spread.behind_median, std::memory_order_relaxed);
  last.last.fetch_add(1, std::memory_order_relaxed);
  ArrivalSums::Kind* const sums = find(members.state(ranks_.front()).arrival.sums, kind);
  if (sums == nullptr) return;
  sums->calls.fetch_add(1, std::memory_order_relaxed);
  sums->spread_ns.fetch_add(spread.spread, std::memory_order_relaxed);
  sums->mean_difference_ns.fetch_add(spread.mean_difference, std::memory_order_relaxed);
}

// At most one line a minute, about the calls since the last one.
void ArrivalMeter::tell(std::uint64_t now_ns) {
  next_look_ns_ = now_ns + kSecondNs;
  if (!log::enabled(log::Level::info, log::Subsystem::init)) return;
  const Members& members = control_.members();
  std::vector<LastArrivals> all;
  for (const Rank rank : ranks_) all.push_back(last_arrivals(members.state(rank)));
  std::vector<LastArrivals> since = all;
  std::uint64_t calls = 0;
  for (std::size_t i = 0; i < since.size(); ++i) {
    since[i].calls -= told_[i].calls;
    since[i].behind_ns -= std::min(since[i].behind_ns, told_[i].behind_ns);
    calls += since[i].calls;
  }
  const auto straggler = straggler_of(since);
  if (!straggler || since[*straggler].mean_behind_us() < kWorthTellingUs) return;
  next_look_ns_ = now_ns + kMinuteNs;
  told_ = std::move(all);
  // Among the lines that are shown by default: who asks for them wants to know.
  log::info(log::Subsystem::init, "communicator {}: {}; host {}", title_,
            straggler_text(ranks_[*straggler], since[*straggler], calls), members.of(ranks_[*straggler]).host);
}

namespace {

std::vector<ArrivalReport::Host> by_host(const Members& members) {
  std::vector<ArrivalReport::Host> hosts;
  for (Rank rank = 0; rank < members.ranks(); ++rank) {
    const std::string& name = members.of(rank).host;
    auto host = std::find_if(hosts.begin(), hosts.end(), [&](const auto& one) { return one.name == name; });
    if (host == hosts.end()) {
      hosts.emplace_back().name = name;
      host = hosts.end() - 1;
    }
    host->ranks.push_back(rank);
    host->last.push_back(last_arrivals(members.state(rank)));
    host->calls += host->last.back().calls;
  }
  for (ArrivalReport::Host& host : hosts)
    if (const auto at = straggler_of(host.last)) {
      host.straggler = host.ranks[*at];
      host.text = straggler_text(host.straggler, host.last[*at], host.calls) + "; host " + host.name;
    }
  return hosts;
}

std::vector<ArrivalReport::Kind> kinds_of(const ArrivalSums& sums) {
  std::vector<ArrivalReport::Kind> kinds;
  for (const ArrivalSums::Kind& entry : sums.kinds) {
    const std::uint64_t key = entry.key.load(std::memory_order_relaxed);
    const std::uint64_t calls = entry.calls.load(std::memory_order_relaxed);
    if (key == 0 || calls == 0) continue;
    const auto mean_us = [&](const std::atomic<std::uint64_t>& sum_ns) {
      return static_cast<double>(sum_ns.load(std::memory_order_relaxed)) / static_cast<double>(calls) * 1e-3;
    };
    kinds.push_back({kind_of(key), calls, mean_us(entry.spread_ns), mean_us(entry.mean_difference_ns)});
  }
  std::sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return key_of(a.kind) < key_of(b.kind); });
  return kinds;
}

// All leave a call together that needs something of everyone: who is in it for the shortest time has come last. It is
// named where it waits for less than half as long as others, and on a host with other ranks only if it is last there.
void compare_hosts(const Members& members, ArrivalReport& report) {
  std::vector<std::pair<double, Rank>> in_calls_us;
  std::uint64_t least_calls = ~std::uint64_t{0};
  for (Rank rank = 0; rank < members.ranks(); ++rank) {
    const ArrivalSums& sums = members.state(rank).arrival.sums;
    const std::uint64_t calls = sums.calls.load(std::memory_order_relaxed);
    least_calls = std::min(least_calls, calls);
    const auto ns = static_cast<double>(sums.in_calls_ns.load(std::memory_order_relaxed));
    in_calls_us.emplace_back(ns / static_cast<double>(std::max<std::uint64_t>(calls, 1)) * 1e-3, rank);
  }
  std::sort(in_calls_us.begin(), in_calls_us.end());
  const auto [least_us, rank] = in_calls_us.front();
  const double median_us = in_calls_us[in_calls_us.size() / 2].first;
  if (least_calls < kFewCalls || 2 * least_us > median_us) return;
  const auto host = std::find_if(report.hosts.begin(), report.hosts.end(),
                                 [&](const auto& one) { return one.name == members.of(rank).host; });
  if (host->ranks.size() > 1 && host->straggler != rank) return;
  report.straggler = rank;
  report.text = host->ranks.size() > 1 ? fmt::format("{}; it", host->text)
                                       : fmt::format("rank {} on host {} comes last in the mean of {} calls: it", rank,
                                                     host->name, least_calls);
  report.text +=
      fmt::format(" waits {} less in a call than the median of all hosts' ranks", duration_text(median_us - least_us));
}

}  // namespace

std::vector<ArrivalReport::Kind> measured_arrivals(const Members& members) {
  return kinds_of(members.state(ranks_of_this_host(members).front()).arrival.sums);
}

ArrivalReport arrival_report(const Members& members) {
  ArrivalReport report;
  report.hosts = by_host(members);
  report.kinds = measured_arrivals(members);
  if (report.hosts.size() > 1) {
    compare_hosts(members, report);
  } else {
    report.straggler = report.hosts.front().straggler;
    report.text = report.hosts.front().text;
  }
  return report;
}

}  // namespace sccl::runtime
