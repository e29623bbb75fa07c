#include "runtime/settings/settings.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "base/settings/path_pattern.h"
#include "planners/planners.h"
#include "platform/host/caches.h"
#include "portfolio/portfolio.h"
#include "runtime/settings/nccl_filters.h"
#include "runtime/transport/shm/memory_layout.h"
#include "runtime/waiting/stall_watch.h"
#include "topology/formats/load.h"

namespace sccl::runtime {
namespace {

bool must_be_deterministic() { return env::flag("SCCL_DETERMINISTIC", false); }

constexpr const char* kSlotBytes = "SCCL_SLOT_BYTES";
constexpr std::int64_t kDefaultSlotBytes = 128 * 1024;
// Between hosts a message costs by packets: Linux sends up to 45 segments of 1448 bytes as one. With its heads, a
// message of this length takes four of them; one of 128 KiB takes two and a third for its last bytes.
constexpr std::int64_t kDefaultSlotBytesBetweenHosts = 252 * 1024;
constexpr int kSlotsBetweenHosts = 2 * device::kSlotCount;  // short ones together count as as many long ones
constexpr std::int64_t kLeastSlotBytes = 4096;
constexpr std::int64_t kMostSlotBytes = 16 * 1024 * 1024;
constexpr std::int64_t kDefaultMemoryLimit = 32000000;
constexpr std::int64_t kDefaultMemoryLimitOfTree = 64000000;
// The part of the limit for a rank's private memory: bounce buffers, scratch, plans.
constexpr std::int64_t kPrivateBytes = 4000000;

template <typename T>
struct Word {
  std::string_view text;
  T value;
};
constexpr auto kDispatches = std::to_array<Word<Dispatch>>(
    {{"measured", Dispatch::measured}, {"model", Dispatch::model}, {"learned", Dispatch::learned}});
constexpr auto kTuneModes =
    std::to_array<Word<TuneMode>>({{"load", TuneMode::load}, {"off", TuneMode::off}, {"online", TuneMode::online}});

template <typename Words, typename T>
std::string_view text_of(const Words& words, T value) {
  for (const auto& word : words)
    if (word.value == value) return word.text;
  return "?";
}

// The first word is the default.
template <typename Words>
auto word_from_environment(const char* name, const Words& words) {
  const std::string text = env::text(name).value_or(std::string(words.front().text));
  std::string known;
  for (const auto& word : words) {
    if (word.text == text) return word.value;
    known += (known.empty() ? "" : ", ") + std::string(word.text);
  }
  log::warn("{}={} is not known: use one of {}; continuing with {}", name, text, known, words.front().text);
  return words.front().value;
}

template <typename Visit>
void for_each_item(std::string_view list, char separator, Visit&& visit) {
  while (!list.empty()) {
    const std::size_t end = list.find(separator);
    visit(list.substr(0, end));
    list = end == std::string_view::npos ? std::string_view{} : list.substr(end + 1);
  }
}

// A planner, a kind of schedules ("trees"), or a kind with numbers as in the log ("trees/32", "synth 6/3/7").
bool known_algorithm(std::string_view name) {
  const std::string_view kind = name.substr(0, name.find_first_of(" /"));
  const auto kinds = portfolio::kinds();
  return name == "auto" || name == kVendorAlgorithm || planners::find(name) != nullptr ||
         std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

}  // namespace

bool valid_algorithms(std::string_view list) {
  bool valid = true;
  for_each_item(list, ';', [&](std::string_view item) {
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos)
      valid = valid && known_algorithm(item);
    else
      valid = valid && collective_from_name(item.substr(0, colon)) && known_algorithm(item.substr(colon + 1));
  });
  return valid;
}

namespace {

// NCCL_BUFFSIZE limits the bytes of all slots of a connection together.
std::int64_t asked_slot_bytes(std::int64_t by_default = kDefaultSlotBytes, int slots = device::kSlotCount) {
  const auto given =
      env::number(kSlotBytes, by_default, kLeastSlotBytes, kMostSlotBytes,
                  fmt::format("{} ({} between hosts)", kDefaultSlotBytes, kDefaultSlotBytesBetweenHosts));
  const auto asked = given / 4096 * 4096;
  const auto buffer = env::number("NCCL_BUFFSIZE", 0, 0, std::int64_t{1} << 40);
  if (buffer == 0) return asked;
  const std::int64_t bound = std::max<std::int64_t>(buffer / slots / 4096 * 4096, kLeastSlotBytes);
  return std::min(asked, bound);
}

// A tree keeps as many sums of a slice as there are pairs of ranks.
std::int64_t memory_limit(ArrivalForm arrival) {
  const std::int64_t by_default = arrival == ArrivalForm::eager ? kDefaultMemoryLimitOfTree : kDefaultMemoryLimit;
  return env::number("SCCL_MEM_LIMIT", by_default, 1, std::int64_t{1} << 50);
}

// Without the slots.
std::int64_t fixed_bytes(int ranks, std::size_t arrival_bytes) {
  return static_cast<std::int64_t>(MemoryLayout(ranks, 0, 0, arrival_bytes).total_bytes()) + kPrivateBytes;
}

std::int64_t most_slot_bytes(int ranks, ArrivalForm arrival, std::size_t arrival_bytes) {
  const std::int64_t limit = memory_limit(arrival);
  const auto slots = static_cast<std::int64_t>(MemoryLayout::slots(ranks));
  const std::int64_t fixed = fixed_bytes(ranks, arrival_bytes);
  const std::int64_t most = (limit - fixed) / slots / 4096 * 4096;
  if (most < kLeastSlotBytes)
    fail(ErrorCode::system_error,
         "SCCL_MEM_LIMIT={} on host {} does not hold a communicator of {} ranks: allow {} bytes at least", limit,
         short_host_name(), ranks, fixed + slots * kLeastSlotBytes);
  return most;
}

std::size_t slot_bytes_within_limit(int ranks, ArrivalForm arrival, std::size_t arrival_bytes) {
  const std::int64_t asked = asked_slot_bytes();
  const std::int64_t most = most_slot_bytes(ranks, arrival, arrival_bytes);
  if (most >= asked) return static_cast<std::size_t>(asked);
  log::info(log::Subsystem::init, "SCCL_MEM_LIMIT={} bounds slots of {} ranks to {} bytes instead of {}",
            memory_limit(arrival), ranks, most, asked);
  return static_cast<std::size_t>(most);
}

constexpr auto kArrivalForms = std::to_array<Word<ArrivalForm>>({{"never", ArrivalForm::never},
                                                                 {"eager", ArrivalForm::eager},
                                                                 {"auto", ArrivalForm::automatic},
                                                                 {"leader", ArrivalForm::leader},
                                                                 {"chain", ArrivalForm::chain}});

// As many MiB as fit beside the slots that are asked for; the least of it also where only the least slots fit beside
// it.
std::size_t arrival_bytes_within_limit(ArrivalForm arrival, int ranks) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  constexpr std::size_t kLeastArrivalBytes = 4 * kMiB;
  constexpr std::size_t kMostArrivalBytes = 32 * kMiB;
  if (arrival == ArrivalForm::never || ranks == 1) return 0;
  const auto slots = static_cast<std::int64_t>(MemoryLayout::slots(ranks));
  const auto fits = [&](std::size_t bytes, std::int64_t slot_bytes) {
    return fixed_bytes(ranks, bytes) + slots * slot_bytes <= memory_limit(arrival);
  };
  for (std::size_t bytes = kMostArrivalBytes; bytes > kLeastArrivalBytes; bytes -= kMiB)
    if (fits(bytes, asked_slot_bytes())) return bytes;
  if (fits(kLeastArrivalBytes, kLeastSlotBytes)) return kLeastArrivalBytes;
  log::warn("SCCL_ARRIVAL needs {} bytes of memory beside the slots of {} ranks: raise SCCL_MEM_LIMIT={}",
            fixed_bytes(ranks, kLeastArrivalBytes), ranks, memory_limit(arrival));
  return 0;
}

std::string algorithms_from_environment() {
  auto given = env::text("SCCL_ALGO");
  if (!given) return nccl_algorithms(env::text("NCCL_ALGO").value_or(""));
  if (given->size() >= SettingsRecord::kAlgorithmTextBytes) {
    log::warn(
        "SCCL_ALGO has {} characters, and ranks tell one another {} at most: shorten the list; continuing with "
        "automatic choice",
        given->size(), SettingsRecord::kAlgorithmTextBytes - 1);
    return "";
  }
  if (valid_algorithms(*given)) return *std::move(given);
  log::warn(
      "SCCL_ALGO={} is not understood: give a planner's name or a list such as allreduce:ring;broadcast:binomial"
      " (sccl env lists the names); continuing with automatic choice",
      *given);
  return "";
}

NcclProtocols protocols_from_environment() {
  if (env::text("SCCL_PROTO")) return {word_from_environment("SCCL_PROTO", kProtocolWords), true};
  return nccl_protocols(env::text("NCCL_PROTO").value_or(""));
}

// If two settings contradict each other, the setting that is safe for the program's data and memory wins.
void resolve_contradictions(Settings& settings) {
  if (settings.protocol == ProtocolChoice::direct && !settings.direct_allowed) {
    log::warn("SCCL_PROTO=direct contradicts SCCL_DIRECT=0: continuing with shared slots");
    settings.protocol = ProtocolChoice::automatic;
  }
  if (settings.chunk_bytes > settings.slot_bytes)
    log::info(log::Subsystem::init, "SCCL_CHUNK={} is more than a slot holds: slices through slots have {} bytes",
              settings.chunk_bytes, settings.slot_bytes);
  if (settings.tune == TuneMode::online && settings.dispatch == Dispatch::model) {
    log::warn(
        "SCCL_TUNE=online contradicts SCCL_DISPATCH=model, which uses no measured times: continuing with "
        "SCCL_TUNE=off");
    settings.tune = TuneMode::off;
  }
  if (settings.dispatch == Dispatch::learned && must_be_deterministic()) {
    log::warn(
        "SCCL_DISPATCH=learned contradicts SCCL_DETERMINISTIC=1, since what is learned may change: continuing with "
        "SCCL_DISPATCH=model");
    settings.dispatch = Dispatch::model;
  }
  if (settings.dispatch == Dispatch::learned && settings.tune == TuneMode::load) settings.tune = TuneMode::off;
  if (settings.dispatch == Dispatch::model) settings.tune = TuneMode::off;
  bool other_kinds = false;
  for_each_item(settings.algorithms, ';', [&](std::string_view item) {
    const std::string_view name = item.substr(item.find(':') + 1);  // npos + 1 == 0
    other_kinds = other_kinds || (name != "auto" && name != kVendorAlgorithm && planners::find(name) == nullptr);
  });
  if (settings.topology.empty() && other_kinds)
    log::info(log::Subsystem::init,
              "SCCL_ALGO={}: trees and synthesized schedules serve links that are named (SCCL_TOPO); the host's "
              "own join every rank to every other and are served by planners",
              settings.algorithms);
}

// A user who sets SCCL_TUNE or SCCL_DISPATCH accepts that tuning may change the order of sums. Otherwise all runs give
// the same bits.
SumOrder sum_order_from_environment() {
  if (must_be_deterministic()) return SumOrder::fixed;
  const bool asked = env::text("SCCL_TUNE").has_value() || env::text("SCCL_DISPATCH").has_value();
  return asked ? SumOrder::free : SumOrder::fixed;
}

// A user who names a form that adds in the order of arrival asks for it.
SumOrder arrival_order(const Settings& settings) {
  if (settings.arrival == ArrivalForm::automatic) return settings.sum_order;
  if (settings.arrival != ArrivalForm::leader && settings.arrival != ArrivalForm::chain) return SumOrder::fixed;
  if (!must_be_deterministic()) return SumOrder::free;
  log::info(log::Subsystem::tuning,
            "SCCL_DETERMINISTIC=1: sums of floats are not added in the order of arrival (SCCL_ARRIVAL={}), and are "
            "served by the usual schedules",
            text_of(kArrivalForms, settings.arrival));
  return SumOrder::fixed;
}

std::string end_of_topology(const std::string& topology) {
  constexpr std::size_t kMost = SettingsRecord::kTopologyTextBytes - 1;
  return topology.size() <= kMost ? topology : topology.substr(topology.size() - kMost);
}

}  // namespace

std::string Settings::algorithm(Collective collective) const {
  std::string general;
  std::string specific;
  for_each_item(algorithms, ';', [&](std::string_view item) {
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos)
      general = item;
    else if (item.substr(0, colon) == info(collective).name)
      specific = item.substr(colon + 1);
  });
  const std::string& wanted = specific.empty() ? general : specific;
  return wanted == "auto" ? "" : wanted;
}

Settings settings_from_environment(int ranks) {
  Settings settings;
  settings.topology = topology::named_topology().value_or("");
  settings.algorithms = algorithms_from_environment();
  const NcclProtocols protocols = protocols_from_environment();
  settings.protocol = protocols.choice;
  settings.lines_allowed = protocols.lines;
  settings.arrival = word_from_environment("SCCL_ARRIVAL", kArrivalForms);
  settings.arrival_bytes = arrival_bytes_within_limit(settings.arrival, ranks);
  settings.slot_bytes = slot_bytes_within_limit(ranks, settings.arrival, settings.arrival_bytes);
  settings.direct_allowed = env::flag("SCCL_DIRECT", true);
  settings.chunk_bytes =
      static_cast<std::size_t>(env::number("SCCL_CHUNK", 0, kLeastSlotBytes, kMostSlotBytes)) / 64 * 64;
  settings.stream_bytes = static_cast<std::size_t>(env::number(
      "SCCL_STREAM_BYTES", static_cast<std::int64_t>(host::bytes_that_stay(ranks)), 0, std::int64_t{1} << 50));
  settings.dispatch = word_from_environment("SCCL_DISPATCH", kDispatches);
  settings.tune = word_from_environment("SCCL_TUNE", kTuneModes);
  settings.sum_order = sum_order_from_environment();
  settings.vendor = vendor_setting().mode;
  settings.arrival_order = arrival_order(settings);
  resolve_contradictions(settings);
  stall_limits();  // invalid values are reported now, not when a call waits
  return settings;
}

std::size_t slot_bytes_between_hosts(int ranks, const Settings& settings) {
  const std::int64_t asked = asked_slot_bytes(kDefaultSlotBytesBetweenHosts, kSlotsBetweenHosts);
  return static_cast<std::size_t>(std::min(asked, most_slot_bytes(ranks, settings.arrival, settings.arrival_bytes)));
}

SettingsRecord to_record(const Settings& settings) {
  SettingsRecord record;
  record.slot_bytes = settings.slot_bytes;
  record.chunk_bytes = settings.chunk_bytes;
  record.stream_bytes = settings.stream_bytes;
  record.protocol = static_cast<std::uint8_t>(settings.protocol);
  record.lines_allowed = settings.lines_allowed ? 1 : 0;
  record.direct_allowed = settings.direct_allowed ? 1 : 0;
  record.dispatch = static_cast<std::uint8_t>(settings.dispatch);
  record.tune = static_cast<std::uint8_t>(settings.tune);
  record.sum_order = static_cast<std::uint8_t>(settings.sum_order);
  record.arrival = static_cast<std::uint8_t>(settings.arrival);
  record.vendor = static_cast<std::uint8_t>(settings.vendor);
  record.arrival_order = static_cast<std::uint8_t>(settings.arrival_order);
  record.arrival_bytes = settings.arrival_bytes;
  std::strncpy(record.algorithms.data(), settings.algorithms.c_str(), record.algorithms.size() - 1);
  std::strncpy(record.topology.data(), end_of_topology(settings.topology).c_str(), record.topology.size() - 1);
  return record;
}

Settings from_record(const SettingsRecord& record) {
  Settings settings;
  settings.algorithms = record.algorithms.data();
  settings.topology = record.topology.data();
  settings.protocol = static_cast<ProtocolChoice>(record.protocol);
  settings.lines_allowed = record.lines_allowed != 0;
  settings.slot_bytes = record.slot_bytes;
  settings.direct_allowed = record.direct_allowed != 0;
  settings.chunk_bytes = record.chunk_bytes;
  settings.stream_bytes = record.stream_bytes;
  settings.dispatch = static_cast<Dispatch>(record.dispatch);
  settings.tune = static_cast<TuneMode>(record.tune);
  settings.sum_order = static_cast<SumOrder>(record.sum_order);
  settings.arrival = static_cast<ArrivalForm>(record.arrival);
  settings.vendor = static_cast<VendorMode>(record.vendor);
  settings.arrival_order = static_cast<SumOrder>(record.arrival_order);
  settings.arrival_bytes = record.arrival_bytes;
  return settings;
}

namespace {

// What ranks should have alike, always in the same order.
std::vector<std::pair<std::string, std::string>> values_of(const Settings& of) {
  std::vector<std::pair<std::string, std::string>> found;
  const auto add = [&](const char* name, const auto& value) { found.emplace_back(name, fmt::format("{}", value)); };
  const auto order = [](SumOrder one) { return one == SumOrder::fixed ? "fixed" : "free"; };
  add("SCCL_TOPO", of.topology.empty() ? "unset" : end_of_topology(of.topology));
  add("SCCL_ALGO", of.algorithms.empty() ? "auto" : of.algorithms);
  add("SCCL_PROTO", name_of(of.protocol));
  add("LL128 of NCCL_PROTO", of.lines_allowed ? 1 : 0);
  add(kSlotBytes, of.slot_bytes);
  add("SCCL_DIRECT", of.direct_allowed ? 1 : 0);
  add("SCCL_CHUNK", of.chunk_bytes);
  add("SCCL_STREAM_BYTES", of.stream_bytes);
  add("SCCL_DISPATCH", text_of(kDispatches, of.dispatch));
  add("SCCL_ARRIVAL", text_of(kArrivalForms, of.arrival));
  add("SCCL_VENDOR", name_of(of.vendor));
  add("SCCL_TUNE", text_of(kTuneModes, of.tune));
  add("order of sums by SCCL_TUNE and SCCL_DETERMINISTIC", order(of.sum_order));
  add("order of sums by SCCL_ARRIVAL", order(of.arrival_order));
  return found;
}

}  // namespace

std::vector<std::string> differences(const Settings& mine, const Settings& theirs) {
  const auto own = values_of(mine);
  const auto other = values_of(theirs);
  std::vector<std::string> found;
  for (std::size_t at = 0; at < own.size(); ++at)
    if (own[at] != other[at])
      found.push_back(fmt::format("{}={} instead of {}", own[at].first, own[at].second, other[at].second));
  return found;
}

std::vector<SettingValues> different_settings(std::span<const Settings> by_rank) {
  std::vector<SettingValues> all;
  for (const Settings& one : by_rank) {
    const auto values = values_of(one);
    all.resize(values.size());
    for (std::size_t at = 0; at < values.size(); ++at) {
      all[at].name = values[at].first;
      all[at].values.push_back(values[at].second);
      all[at].least_counts = all[at].name == kSlotBytes;
    }
  }
  std::erase_if(all, [](const SettingValues& setting) {
    return std::all_of(setting.values.begin(), setting.values.end(),
                       [&](const std::string& value) { return value == setting.values.front(); });
  });
  return all;
}

}  // namespace sccl::runtime
