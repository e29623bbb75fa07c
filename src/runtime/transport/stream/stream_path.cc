#include "runtime/transport/stream/stream_path.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "base/error.h"
#include "base/os/process_registry.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "platform/gpu/stream_operations.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/transport/p2p/device_layout.h"
#include "runtime/transport/stream/engine_rates.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kSharedPart = 4;  // slots of streams take a quarter of the limit, besides the slots of kernels
constexpr std::size_t kLeastSlotBytes = 64 * 1024;
constexpr std::size_t kMostSlotBytes = 16 * 1024 * 1024;
constexpr std::size_t kPageBytes = 4096;

enum Wish : std::uint8_t { automatic, kernels, streams };

struct Offer {
  std::uint64_t slots_token = 0;
  std::uint64_t flags_token = 0;
  gpu::Ticket ticket;
  bool made = false;
};

std::uint8_t wish_of_environment() {
  const std::string text = env::text("SCCL_DEVICE_PATH").value_or("auto");
  if (text == "kernels") return kernels;
  if (text == "streams") return streams;
  if (text != "auto") log::warn("SCCL_DEVICE_PATH={} is none of auto, kernels, streams: continuing with auto", text);
  return automatic;
}

std::uint64_t engine_bytes_of_environment() {
  constexpr const char* kName = "SCCL_COPY_ENGINE_BYTES";
  if (env::text(kName) == "auto") return StreamRecord::kMeasured;
  return static_cast<std::uint64_t>(env::number(kName, 0, 0, std::int64_t{1} << 50));
}

// Containers repeat process numbers, so a random number is added. A forked child inherits the random number, so the
// process number is needed, too.
std::uint64_t own_process() {
  static const std::uint64_t drawn = std::uint64_t{std::random_device{}()} << 32;
  return drawn ^ static_cast<std::uint64_t>(::getpid());
}

StreamRecord record_of(const DeviceMembership& devices, std::string& why_not) {
  const gpu::Device& device = devices.device;
  StreamRecord record;
  record.possible = gpu::can_order_by_flags(device, why_not);
  if (devices.paths.any_staged()) {
    record.possible = false;
    why_not = "some of the devices do not reach one another's memory";
  }
  record.capturable = gpu::can_capture_flags(*device.driver);
  record.beside_others = gpu::runs_beside_other_processes(device);
  record.wish = wish_of_environment();
  record.engine_bytes = engine_bytes_of_environment();
  record.memory_limit = device_memory_limit_bytes();
  record.process = own_process();
  record.device = device.id;
  return record;
}

// A pure function of the records, so that all ranks decide alike.
struct Decision {
  bool all_calls = false;
  std::size_t engine_bytes = 0;
  bool measure = false;  // engine_bytes must be measured
  bool wanted() const { return all_calls || engine_bytes > 0 || measure; }
};

Decision decide(std::span<const StreamRecord> records) {
  const auto any = [&](Wish wish) {
    return std::any_of(records.begin(), records.end(), [&](const StreamRecord& record) { return record.wish == wish; });
  };
  Decision decision;
  if (any(kernels)) return decision;
  decision.all_calls = any(streams) || shares_time(records);
  for (const StreamRecord& record : records) {
    if (record.engine_bytes == 0) return {decision.all_calls, 0};
    if (record.engine_bytes != StreamRecord::kMeasured)
      decision.engine_bytes = std::max<std::size_t>(decision.engine_bytes, record.engine_bytes);
  }
  decision.measure = !decision.all_calls && decision.engine_bytes == 0;
  return decision;
}

// Rank 0 measures, and all ranks take its result.
std::size_t agree_on_engines(Rank rank, const DeviceMembership& devices, std::span<const StreamRecord> records,
                             Bootstrap& bootstrap, Deadline deadline) {
  std::uint64_t from = 0;
  if (rank == 0) {
    try {
      std::vector<gpu::UniqueDeviceId> ids;
      for (const StreamRecord& record : records) ids.push_back(record.device);
      from = engines_pay_from(devices, rank, engine_pairs(devices, rank, ids));
    } catch (const Error& error) {
      log::info(log::Subsystem::init, "copy engines serve no moves: they could not be measured ({})", error.what());
    }
  }
  return gather_values(from, "copy engines", bootstrap, deadline).front();
}

std::size_t slot_bytes_within(std::span<const StreamRecord> records) {
  std::uint64_t limit = records.front().memory_limit;
  for (const StreamRecord& record : records) limit = std::min(limit, record.memory_limit);
  const std::size_t each = limit / kSharedPart / (records.size() * kStreamSlots) / kLeastSlotBytes * kLeastSlotBytes;
  return std::clamp(each, kLeastSlotBytes, kMostSlotBytes);
}

std::size_t flag_bytes(std::size_t ranks) {
  const std::size_t bytes =
      sizeof(StreamProgress) + ranks * (sizeof(std::uint32_t) * 2 * kStreamSlots + sizeof(device::gpu::SignalGate));
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Makes this rank's part of the path. reach_peers() adds the peers' parts after the exchange of offers.
void make_own(StreamPath& path, const gpu::Device& device, Offer& offer, FileDescriptor& descriptor) {
  const auto own = static_cast<std::size_t>(path.rank);
  path.slots[own] = gpu::DeviceMemory::allocate(device, path.pages.size() * kStreamSlots * path.slot_bytes);
  path.pages[own] = std::make_shared<FlagPage>(device, host::Segment::create(flag_bytes(path.pages.size())));
  for (Rank peer = 0; peer < path.ranks(); ++peer)
    for (int slot = 0; slot < kStreamSlots; ++slot) *path.flag(path.rank, Flag::empty, peer, slot) = kFree;
  path.page_addresses[own] = path.pages[own]->pinned.address_for(device);
  offer.slots_token = register_shared(path.slots[own]);
  offer.flags_token = register_shared(path.pages[own]);
  offer.ticket = path.slots[own]->ticket(descriptor);
  offer.made = true;
}

void reach_peers(StreamPath& path, const gpu::Device& device, std::span<const Offer> offers,
                 std::vector<std::vector<FileDescriptor>>& descriptors) {
  for (std::size_t peer = 0; peer < offers.size(); ++peer) {
    if (static_cast<Rank>(peer) == path.rank) continue;
    path.pages[peer] = find_shared<FlagPage>(offers[peer].flags_token);
    path.slots[peer] = find_shared<gpu::DeviceMemory>(offers[peer].slots_token);
    if (path.slots[peer])
      path.slots[peer]->admit(device);
    else
      path.slots[peer] = gpu::DeviceMemory::map(device, offers[peer].ticket, descriptors[peer].at(1));
    if (!path.pages[peer])
      path.pages[peer] =
          std::make_shared<FlagPage>(device, host::Segment::map(descriptors[peer].at(0), flag_bytes(offers.size())));
    path.page_addresses[peer] = path.pages[peer]->pinned.address_for(device);
  }
}

// A wait stands in its hardware queue until it ends, and what other streams enqueue there stands behind it: also what
// it waits for, if a rank of this process enqueues that.
bool shares_queues(std::span<const StreamRecord> records) {
  for (std::size_t i = 0; i < records.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (records[i].device == records[j].device && records[i].process == records[j].process) return true;
  return false;
}

std::shared_ptr<StreamPath> none(Rank rank, const Decision& decision, std::span<const StreamRecord> records,
                                 const std::string& why) {
  if (rank == 0 && (decision.wanted() || shares_time(records)))
    log::info(log::Subsystem::init, "no calls are ordered by streams: {}{}", why,
              shares_time(records) ? "; kernels that wait for other processes burn their time slices "
                                     "(nvidia-cuda-mps-control -d lets them run side by side)"
                                   : "");
  return nullptr;
}

}  // namespace

bool shares_time(std::span<const StreamRecord> records) {
  for (const StreamRecord& one : records)
    for (const StreamRecord& other : records)
      if (one.device == other.device && one.process != other.process && !(one.beside_others && other.beside_others))
        return true;
  return false;
}

std::shared_ptr<StreamPath> share_stream_path(Rank rank, const DeviceMembership& devices, Bootstrap& bootstrap,
                                              Deadline deadline) {
  if (devices.peers.size() < 2) return nullptr;
  std::string why_not;
  const auto records = gather_values(record_of(devices, why_not), "streams", bootstrap, deadline);
  Decision decision = decide(records);
  if (!decision.wanted()) return none(rank, decision, records, "SCCL_DEVICE_PATH=kernels");
  const auto unable =
      std::find_if(records.begin(), records.end(), [](const StreamRecord& record) { return !record.possible; });
  if (unable != records.end())
    return none(rank, decision, records,
                why_not.empty() ? fmt::format("rank {} cannot", unable - records.begin()) : why_not);
  if (records.size() > kMostStreamRanks)
    return none(rank, decision, records, fmt::format("{} ranks, and {} at most", records.size(), kMostStreamRanks));
  if (decision.measure) {
    decision.engine_bytes = agree_on_engines(rank, devices, records, bootstrap, deadline);
    if (decision.engine_bytes == 0) return nullptr;
  }

  auto path = std::make_shared<StreamPath>();
  path->all_calls = decision.all_calls;
  path->engine_bytes = decision.engine_bytes;
  path->capturable =
      std::all_of(records.begin(), records.end(), [](const StreamRecord& record) { return record.capturable; });
  path->slot_bytes = slot_bytes_within(records);
  path->rank = rank;
  path->pages.resize(records.size());
  path->page_addresses.resize(records.size());
  path->slots.resize(records.size());
  Offer offer;
  FileDescriptor memory_descriptor;
  std::string obstacle;
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (const Error& error) {
      obstacle = error.what();
    }
  };
  // A rank that fails reports the failure before any rank waits for its descriptors.
  attempt([&] { make_own(*path, devices.device, offer, memory_descriptor); });
  const auto offers = gather_values(offer, "streams", bootstrap, deadline);
  if (!std::all_of(offers.begin(), offers.end(), [](const Offer& other) { return other.made; }))
    return none(rank, decision, records, obstacle.empty() ? "a rank has no memory for it" : obstacle);
  std::vector<Rank> all(records.size());
  std::iota(all.begin(), all.end(), 0);
  const int flags_descriptor = path->pages[static_cast<std::size_t>(rank)]->segment->descriptor();
  const std::array<int, 2> mine{flags_descriptor,
                                memory_descriptor.valid() ? memory_descriptor.get() : flags_descriptor};
  auto descriptors = bootstrap.exchange_descriptors(all, mine, deadline);
  attempt([&] { reach_peers(*path, devices.device, offers, descriptors); });
  const std::uint8_t reached = obstacle.empty() ? 1 : 0;
  for (const std::uint8_t verdict : gather_values(reached, "streams", bootstrap, deadline))
    if (verdict == 0)
      return none(rank, decision, records, obstacle.empty() ? "a rank cannot reach the others' memory" : obstacle);
  path->pages[static_cast<std::size_t>(rank)]->segment->close_descriptor();
  if (rank == 0 && path->all_calls && shares_queues(records))
    log::warn(
        "ranks of one process order their calls on a device by streams, which may wait for one another in hardware "
        "queues: give each rank one stream and set CUDA_DEVICE_MAX_CONNECTIONS=32 before the program starts, or leave "
        "SCCL_DEVICE_PATH at auto and run a process service (nvidia-cuda-mps-control -d)");
  if (rank == 0)
    log::info(
        log::Subsystem::init, "{} ordered by streams, {} KiB slots{}{}",
        path->all_calls ? "all calls are" : fmt::format("moves of {} bytes and more are", path->engine_bytes),
        path->slot_bytes / 1024,
        shares_time(records) ? ": ranks of several processes share a device without a process service" : "",
        path->capturable ? "" : "; captured calls are not (driver older than 12.0), their kernels wait in time slices");
  return path;
}

void check_room(const DeviceMembership& devices) {
  const bool streams_wait = devices.streams && devices.streams->all_calls;
  if (devices.no_room.empty() || streams_wait) return;
  const bool may_wait = devices.proxy == nullptr && devices.peers.size() <= kMostStreamRanks;
  fail(ErrorCode::invalid_usage, "{}{}", devices.no_room, may_wait ? ", or set SCCL_DEVICE_PATH=streams" : "");
}

}  // namespace sccl::runtime
