#include "runtime/choice/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/device/connection.h"
#include "planners/planners.h"
#include "runtime/transport/shm/memory_layout.h"
#include "schedule/simulation/cost.h"

namespace sccl::runtime {
namespace {

using planners::Family;

// Measured on two cores (bench/host). From here on reading the peers' buffers in place costs less than a second copy
// through slots, if they lie in the same address space.
constexpr std::size_t kDirectBytes = 128 * 1024;
// Through system calls it depends on the machine: where pinning the pages costs more than a copy that stays in the
// caches it does not at any size (reductions 3 GB/s against 13, copies 9 against 11); elsewhere two ranks gain up to a
// half with larger buffers of so much or more, as long as results stay in the caches, AllGather a little longer.
constexpr std::size_t kSystemBytes = 128 * 1024;
static_assert(kAutomaticLlBytes <= device::kInlineMessageBytes);
// Up to here sending everything to everyone beats sending shares twice: it is written once for all.
constexpr std::size_t kAllPairsBytes = 32 * 1024;
// But everyone adds everything; beyond this many ranks a logarithmic exchange costs less, as long as calls are short.
constexpr int kAllPairsRanks = 8;
constexpr std::size_t kRecursiveBytes = 8 * 1024;
constexpr int kManyRanks = 16;
// From here on the slots of one neighbour stay in the caches and those of all peers do not: of each rank's share, of
// what a root gets, of all that is scattered.
constexpr std::size_t kRingShareBytes = 256 * 1024;
constexpr std::size_t kRootedRingBytes = 256 * 1024;
constexpr std::size_t kScatterRingBytes = 128 * 1024;
// Of ranks that share a device's memory, for a choice between protocols; no device has been measured yet.
constexpr double kDeviceGbytesPerS = 200;
// Lines are unpacked before they are added, a pass over memory that the model of links does not know: in chunks of so
// much at most, which have few messages in every channel.
constexpr std::size_t kMostAutomaticLineBytes = 256 * 1024;

std::string name_of(Family family) { return std::string(planners::first_of(family).name); }

// bench/choice/host.py measures these thresholds.
Family all_reduce_family(std::size_t bytes, int ranks, bool direct) {
  if (ranks <= kAllPairsRanks && bytes <= kAllPairsBytes) return Family::exchange;
  if (ranks > kAllPairsRanks && bytes <= kRecursiveBytes) return Family::doubling;
  const bool ring = ranks > 2 && (ranks > kManyRanks || bytes / static_cast<std::size_t>(ranks) >= kRingShareBytes);
  return ring && !direct ? Family::ring : Family::star;
}

Family automatic_family(const CallShape& call, bool direct) {
  const std::size_t all_bytes = call.bytes * static_cast<std::size_t>(call.ranks);
  switch (call.collective) {
    case Collective::allreduce:
      return all_reduce_family(call.bytes, call.ranks, direct);
    case Collective::reduce:
      if (call.bytes < kDirectBytes && call.ranks > 4) return Family::tree;
      return call.ranks > 2 && !direct && call.bytes >= kRootedRingBytes ? Family::ring : Family::star;
    case Collective::reducescatter:
      return call.ranks > 2 && !direct && all_bytes >= kScatterRingBytes ? Family::ring : Family::star;
    default:
      return Family::star;
  }
}

// Where one way's latency is dearer than twice the data in it.
constexpr std::size_t kShortAllPairsOfTwoBytes = 128 * 1024;

// Of the larger of a rank's buffers.
std::size_t larger_bytes(const CallShape& call) {
  const bool shares = call.collective == Collective::allgather || call.collective == Collective::reducescatter;
  return call.bytes * (shares ? static_cast<std::size_t>(call.ranks) : 1);
}

// Of all buffers that two ranks have in the calls below.
std::size_t all_bytes_of_two(const CallShape& call) {
  const bool in_and_out = call.collective == Collective::allreduce, shares = larger_bytes(call) != call.bytes;
  return larger_bytes(call) * (in_and_out ? 4 : shares ? 3 : 2);
}

// AllReduce of two ranks whose buffers together leave the caches: both send all they have and add all they get, which
// is one way through slots instead of two, one after the other. What the second pass over the input reads is in the
// cache still.
bool exchanges_all(const CallShape& call, const Settings& settings) {
  if (call.collective != Collective::allreduce || call.ranks != 2) return false;
  return call.bytes <= kShortAllPairsOfTwoBytes || all_bytes_of_two(call) >= settings.stream_bytes;
}

// Up a tree nobody waits for the root, and all but the root go on to their next call (a fifth of the time of short
// calls).
bool reduces_up_a_tree(const CallShape& call) {
  return call.collective == Collective::reduce && (call.ranks == 2 || call.bytes < kRootedRingBytes);
}

Family host_family(const CallShape& call, const Settings& settings, bool direct) {
  if (direct) return automatic_family(call, direct);
  return exchanges_all(call, settings) ? Family::exchange
         : reduces_up_a_tree(call)     ? Family::tree
                                       : automatic_family(call, direct);
}

// Of two ranks, which add in any order alike.
bool prefers_system(const CallShape& call, const Settings& settings, Reach reach) {
  if (reach != Reach::system_preferred || call.ranks != 2 || larger_bytes(call) < kSystemBytes) return false;
  switch (call.collective) {
    case Collective::allreduce:
    case Collective::reducescatter:
    case Collective::broadcast:
      return all_bytes_of_two(call) < settings.stream_bytes;
    case Collective::allgather:
      return all_bytes_of_two(call) < settings.stream_bytes * 2;
    default:
      return false;
  }
}

// Header and payload together, and many under way, beat slots (8 bytes take 0.15 to 0.65 of the time). But what goes to
// several ranks is written into a slot once, and into as many rings as there are ranks.
constexpr std::size_t kLlBytesToAll = 32 * 1024;
std::size_t automatic_ll_bytes(const CallShape& call) {
  const bool rooted = info(call.collective).rooted;
  if (rooted && MemoryLayout::has_deep(call.ranks)) {
    const std::size_t most = most_ll_bytes(call.collective, call.ranks);
    const auto others = static_cast<std::size_t>(std::max(1, call.ranks - 1));
    return call.collective == Collective::broadcast ? std::min(most, kLlBytesToAll / others) : most;
  }
  if (call.ranks == 2) return 4096;
  return rooted ? 2048 : 1024;
}

// The largest message of one chunk: what `ll` slots must hold.
std::size_t chunk_bytes(const CallShape& call, const std::string& planner) {
  const auto ranks = static_cast<std::size_t>(call.ranks);
  const planners::Planner* const known = planners::find(planner);
  // Shares are rounded up to whole cache lines.
  return known != nullptr && known->splits(call.collective) ? (call.bytes / ranks + 63) / 64 * 64 + 64 : call.bytes;
}

}  // namespace

std::size_t most_ll_bytes(Collective collective, int ranks) {
  using RingKind = MemoryLayout::RingKind;
  const bool deep = info(collective).rooted && MemoryLayout::has_deep(ranks);
  return MemoryLayout::inline_message_bytes(deep ? RingKind::deep : RingKind::collective);
}

std::string text(const Choice& choice) {
  return fmt::format("{} ({})", choice.planner,
                     choice.form == Form::direct ? std::string_view("single copy") : name_of(choice.protocol));
}

Choice choose(const CallShape& call, const Settings& settings, Reach reach) {
  Choice choice;
  if (call.ranks == 1) {
    choice.planner = name_of(Family::star);
    return choice;
  }
  const bool direct =
      (settings.protocol == ProtocolChoice::direct && reach != Reach::none) ||
      (settings.protocol == ProtocolChoice::automatic &&
       ((reach == Reach::shared_space && call.bytes >= kDirectBytes) || prefers_system(call, settings, reach)));
  // Trees and synthesis belong to links that are named (SCCL_TOPO); the host's own join every rank to every other.
  std::string asked = settings.algorithm(call.collective);
  if (planners::find(asked) == nullptr) asked.clear();
  choice.planner = asked.empty() ? name_of(host_family(call, settings, direct)) : asked;
  const bool is_star = planners::belongs(choice.planner, Family::star);
  // A tree that was asked for by name keeps its slots.
  if (direct && (is_star || (asked.empty() && planners::belongs(choice.planner, Family::tree)))) {
    if (!is_star) choice.planner = name_of(Family::star);
    choice.form = Form::direct;
    return choice;
  }
  const bool flagged = settings.protocol == ProtocolChoice::ll || settings.protocol == ProtocolChoice::ll128;
  const std::size_t limit = flagged ? most_ll_bytes(call.collective, call.ranks) : automatic_ll_bytes(call);
  if (settings.protocol != ProtocolChoice::simple && chunk_bytes(call, choice.planner) <= limit)
    choice.protocol = ProtocolChoice::ll;
  return choice;
}

std::size_t least_in_place_bytes(const Settings& settings) {
  if (settings.protocol == ProtocolChoice::direct) return 0;
  return settings.protocol == ProtocolChoice::automatic ? kDirectBytes : std::numeric_limits<std::size_t>::max();
}

bool in_place_pays(const CallShape& call, const Settings& settings) {
  return choose(call, settings, Reach::shared_space).form == Form::direct;
}

ProtocolChoice device_protocol(const DeviceMessages& messages, const Settings& settings, bool lines) {
  using schedule::ProtocolCost;
  const bool words = messages.longest_bytes <= device::kLlPayloadBytes;
  if (settings.protocol == ProtocolChoice::simple) return ProtocolChoice::simple;
  if (settings.protocol == ProtocolChoice::ll128 && lines) return ProtocolChoice::ll128;
  if (words) return ProtocolChoice::ll;
  const bool may_choose = settings.protocol == ProtocolChoice::automatic && settings.lines_allowed && lines;
  if (!may_choose || messages.longest_bytes > kMostAutomaticLineBytes) return ProtocolChoice::simple;
  const auto us = [&](const ProtocolCost& cost) { return cost.time_us(messages.steps, messages.busiest_us); };
  return us(schedule::kLineCost) < us(schedule::kSlotCost) ? ProtocolChoice::ll128 : ProtocolChoice::simple;
}

Choice choose_on_device(const CallShape& call, const Settings& settings, DeviceReach reach) {
  const bool direct = reach.direct;
  Choice choice;
  std::string asked = settings.algorithm(call.collective);
  if (planners::find(asked) == nullptr) asked.clear();
  choice.planner = asked.empty() ? name_of(automatic_family(call, direct)) : asked;
  const bool may_be_direct = direct && call.ranks > 1 && settings.protocol != ProtocolChoice::simple &&
                             settings.protocol != ProtocolChoice::ll &&
                             !(settings.protocol == ProtocolChoice::ll128 && reach.lines);
  const bool wanted = settings.protocol == ProtocolChoice::direct || call.bytes > kDeviceLlBytes;
  if (may_be_direct && wanted && (asked.empty() || planners::belongs(asked, Family::star))) {
    if (asked.empty()) choice.planner = name_of(Family::star);
    choice.form = Form::direct;
    return choice;
  }
  const std::size_t longest = chunk_bytes(call, choice.planner);
  // Every step carries a chunk, so that their number changes no comparison.
  choice.protocol =
      device_protocol({longest, 1, static_cast<double>(longest) / (1e3 * kDeviceGbytesPerS)}, settings, reach.lines);
  return choice;
}

}  // namespace sccl::runtime
