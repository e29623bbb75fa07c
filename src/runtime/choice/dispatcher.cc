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

// Measured on two cores (bench/host). From this size on, reading the peers' buffers in place costs less than a second
// copy through slots, if the buffers lie in the same address space.
constexpr std::size_t kDirectBytes = 128 * 1024;
// The same through system calls; the gain depends on the machine. On some machines, pinning the pages costs more than a
// copy that stays in the caches, and there is no gain at any size (reductions 3 GB/s against 13, copies 9 against 11).
// On others, two ranks gain up to a half from this size of the larger buffer on, as long as results stay in the caches;
// AllGather gains up to somewhat larger sizes.
constexpr std::size_t kSystemBytes = 128 * 1024;
static_assert(kAutomaticLlBytes <= device::kInlineMessageBytes);
// Up to this size, sending all data to all ranks costs less than sending shares twice: the data is written once for all
// ranks.
constexpr std::size_t kAllPairsBytes = 32 * 1024;
// In this exchange every rank adds all data. Beyond this many ranks, a logarithmic exchange costs less for short calls.
constexpr int kAllPairsRanks = 8;
constexpr std::size_t kRecursiveBytes = 8 * 1024;
constexpr int kManyRanks = 16;
// From these sizes on, the slots of one neighbour stay in the caches and the slots of all peers do not. The sizes are,
// in this order: each rank's share, all data that a root receives, all scattered data.
constexpr std::size_t kRingShareBytes = 256 * 1024;
constexpr std::size_t kRootedRingBytes = 256 * 1024;
constexpr std::size_t kScatterRingBytes = 128 * 1024;
// On devices every operation of a lane costs 7 us, whatever it moves (an H100), so that few operations on more data win
// up to these sizes: of all data that reach a rank, and of a root's result. 8 ranks, AllReduce in all pairs, in one hop
// and by the ring: 1 MiB 90, 151, 201 us; 4 MiB 246, 187, 291; 256 MiB 14469, 5513, 7484 (docs/results/gpu-h100.md).
constexpr std::size_t kDeviceAllPairsBytes = 16 * 1024 * 1024;
constexpr std::size_t kDeviceRootBytes = 1024 * 1024;
// Assumed for ranks that share a device's memory, for a choice between protocols.
constexpr double kDeviceGbytesPerS = 200;
// Lines are unpacked before they are added. The cost model does not know this pass over memory, so `ll128` serves only
// chunks up to this size, which have few messages in every channel.
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

// Between devices of one host, through slots.
Family device_family(const CallShape& call) {
  const std::size_t all_bytes = call.bytes * static_cast<std::size_t>(call.ranks);
  switch (call.collective) {
    case Collective::allreduce:
      return all_bytes <= kDeviceAllPairsBytes ? Family::exchange : Family::star;
    case Collective::reduce:
      return call.bytes <= kDeviceRootBytes ? Family::star : automatic_family(call, false);
    default:
      return Family::star;
  }
}

// Up to this size a second hop costs more than sending twice the data.
constexpr std::size_t kShortAllPairsOfTwoBytes = 128 * 1024;

// The size of the larger of a rank's buffers.
std::size_t larger_bytes(const CallShape& call) {
  const bool shares = call.collective == Collective::allgather || call.collective == Collective::reducescatter;
  return call.bytes * (shares ? static_cast<std::size_t>(call.ranks) : 1);
}

// The size of all buffers of two ranks together, for the collectives of exchanges_all and prefers_system.
std::size_t all_bytes_of_two(const CallShape& call) {
  const bool in_and_out = call.collective == Collective::allreduce, shares = larger_bytes(call) != call.bytes;
  return larger_bytes(call) * (in_and_out ? 4 : shares ? 3 : 2);
}

// AllReduce of two ranks, for short calls and for buffers that together exceed the caches. Each rank sends its whole
// input and adds the other's input: one hop through slots instead of two hops one after another. The second pass over
// the input reads data that is still in the cache.
bool exchanges_all(const CallShape& call, const Settings& settings) {
  if (call.collective != Collective::allreduce || call.ranks != 2) return false;
  return call.bytes <= kShortAllPairsOfTwoBytes || all_bytes_of_two(call) >= settings.stream_bytes;
}

// In a tree no rank waits for the root, so all other ranks begin their next call early (saves a fifth of the time of
// short calls).
bool reduces_up_a_tree(const CallShape& call) {
  return call.collective == Collective::reduce && (call.ranks == 2 || call.bytes < kRootedRingBytes);
}

Family host_family(const CallShape& call, const Settings& settings, bool direct) {
  if (direct) return automatic_family(call, direct);
  return exchanges_all(call, settings) ? Family::exchange
         : reduces_up_a_tree(call)     ? Family::tree
                                       : automatic_family(call, direct);
}

// Whether two ranks copy through the system. With two ranks, the order of additions does not change results.
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

// `ll` carries header and payload together and has many messages in flight, so it is faster than slots (8 bytes take
// 0.15 to 0.65 of the time). But data for several ranks is written once into a slot, and into one `ll` ring per rank.
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

// The largest message of one chunk, which an `ll` slot must hold.
std::size_t chunk_bytes(const CallShape& call, const std::string& planner) {
  const planners::Planner* const known = planners::find(planner);
  const auto parts = static_cast<std::size_t>(known != nullptr ? known->parts(call.collective, call.ranks) : 1);
  // Shares are rounded up to whole cache lines.
  return parts > 1 ? (call.bytes / parts + 63) / 64 * 64 + 64 : call.bytes;
}

}  // namespace

std::size_t most_ll_bytes(Collective collective, int ranks) {
  using RingKind = MemoryLayout::RingKind;
  const bool deep = info(collective).rooted && MemoryLayout::has_deep(ranks);
  return MemoryLayout::inline_message_bytes(deep ? RingKind::deep : RingKind::collective);
}

std::string text(const Choice& choice) {
  if (choice.planner == kVendorAlgorithm) return choice.planner;
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
  // Trees and synthesis serve only named links (SCCL_TOPO); the host's links join every rank to every other.
  std::string asked = settings.algorithm(call.collective);
  if (planners::find(asked) == nullptr) asked.clear();
  choice.planner = asked.empty() ? name_of(host_family(call, settings, direct)) : asked;
  const bool is_star = planners::belongs(choice.planner, Family::star);
  // A tree that the settings ask for by name keeps its slots.
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
  choice.planner =
      asked.empty() ? name_of(direct || reach.hosts ? automatic_family(call, direct) : device_family(call)) : asked;
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
  // Lines save a fence over a link. Within a device they only cost: on an H200, 64 KiB take 77 us with 2 ranks and 331
  // with 8, and 34 and 191 in plain slots.
  const bool lines = reach.lines && settings.protocol == ProtocolChoice::ll128;
  // Every step carries one chunk, so the number of steps does not change the comparison.
  choice.protocol =
      device_protocol({longest, 1, static_cast<double>(longest) / (1e3 * kDeviceGbytesPerS)}, settings, lines);
  return choice;
}

}  // namespace sccl::runtime
