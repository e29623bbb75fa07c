#include "runtime/transport/p2p/device_exchange.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/os/process_registry.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/settings/device_blocks.h"
#include "runtime/transport/p2p/peer_check.h"

namespace sccl::runtime {
namespace {

// 16 blocks of a device fill a bus.
constexpr int kMostStagedChannels = 16;
constexpr std::size_t kMostStagedBytes = 64u << 20;  // of pinned host memory per rank

// How peers reach a rank's memory: by the token in the same process, by the ticket in other processes.
struct Offer {
  std::uint64_t token = 0;
  std::uint64_t neighbour_token = 0;
  gpu::Ticket ticket;
};

std::size_t agreed_limit(Bootstrap& bootstrap, Deadline deadline) {
  const auto limits = gather_values(device_memory_limit_bytes(), "device", bootstrap, deadline);
  return *std::min_element(limits.begin(), limits.end());
}

struct Places {
  std::span<const DeviceRecord> records;
  std::span<const int> host_of;

  bool on_one_host(Rank one, Rank other) const {
    return host_of[static_cast<std::size_t>(one)] == host_of[static_cast<std::size_t>(other)];
  }
  bool on_one_device(Rank one, Rank other) const {
    return on_one_host(one, other) &&
           records[static_cast<std::size_t>(one)].id == records[static_cast<std::size_t>(other)].id;
  }
  bool are_several_hosts() const {
    return std::any_of(host_of.begin(), host_of.end(), [&](int host) { return host != host_of.front(); });
  }
};

// By rank: how many ranks share its device.
std::vector<int> ranks_beside(const Places& places) {
  const auto device_of = [&](std::size_t rank) {
    const auto& bytes = places.records[rank].id.bytes;
    return std::pair(places.host_of[rank], std::string_view(reinterpret_cast<const char*>(bytes), sizeof bytes));
  };
  std::map<std::pair<int, std::string_view>, int> counts;
  for (std::size_t rank = 0; rank < places.records.size(); ++rank) ++counts[device_of(rank)];
  std::vector<int> result;
  for (std::size_t rank = 0; rank < places.records.size(); ++rank) result.push_back(counts[device_of(rank)]);
  return result;
}

// The least number of blocks of any rank: all ranks must have the same channels.
int fewest_blocks(std::span<const DeviceRecord> records, std::span<const int> beside) {
  int fewest = records.front().multiprocessors;
  for (std::size_t rank = 0; rank < records.size(); ++rank)
    fewest = std::min(fewest, blocks_of_rank(records[rank].multiprocessors, beside[rank], records[rank].most_blocks));
  return std::max(1, fewest);
}

// Of the first device that has more ranks than room; empty: there is none.
std::string text_of_no_room(std::span<const DeviceRecord> records, std::span<const int> beside) {
  for (std::size_t rank = 0; rank < records.size(); ++rank)
    if (const int most = most_ranks(records[rank].multiprocessors); beside[rank] > most)
      return fmt::format(
          "{} ranks share the device of rank {}, and kernels of {} at most run at a time on its {} multiprocessors, "
          "though all wait for one another: put fewer ranks on the device",
          beside[rank], rank, most, records[rank].multiprocessors);
  return {};
}

}  // namespace

DeviceRecord record_of(const gpu::Device& device, int most_blocks) {
  DeviceRecord record{1,
                      static_cast<std::uint8_t>(device.driver->vendor),
                      static_cast<std::uint8_t>(device.vmm && env::flag("NCCL_CUMEM_ENABLE", true) ? 1 : 0),
                      device.multiprocessors,
                      most_blocks,
                      device.id,
                      {}};
  device.busid.copy(record.busid.data(), record.busid.size() - 1);
  return record;
}

bool all_have_devices(std::span<const DeviceRecord> records) {
  const DeviceRecord& first = records.front();
  for (std::size_t rank = 1; rank < records.size(); ++rank) {
    if (records[rank].present != first.present)
      fail(ErrorCode::invalid_usage,
           "rank {} has a current device and rank {} has none: make a device current on every rank before init "
           "(cudaSetDevice), or set SCCL_PLATFORM=host on all",
           first.present != 0 ? 0 : rank, first.present != 0 ? rank : 0);
    if (records[rank].vendor != first.vendor)
      fail(ErrorCode::invalid_usage, "ranks 0 and {} use devices of different vendors: use one kind in a communicator",
           rank);
  }
  return first.present != 0;
}

namespace {

class DeviceExchange {
 public:
  DeviceExchange(Rank rank, const gpu::Device& device, const Places& places, const Settings& settings,
                 Bootstrap& bootstrap, Deadline deadline)
      : rank_(rank),
        places_(places),
        bootstrap_(bootstrap),
        deadline_(deadline),
        limit_(agreed_limit(bootstrap, deadline)) {
    membership_.device = device;
    const std::vector<int> beside = ranks_beside(places);
    membership_.neighbours = beside[static_cast<std::size_t>(rank)];
    membership_.blocks = fewest_blocks(places.records, beside);
    membership_.no_room = text_of_no_room(places.records, beside);
    membership_.wide_blocks = may_be_wide(membership_.blocks, device.multiprocessors, membership_.neighbours);
    // Memory is passed as descriptors only if every rank can do so.
    for (const DeviceRecord& record : places.records)
      membership_.device.vmm = membership_.device.vmm && record.vmm != 0;
    membership_.lines = agree_on_lines(settings);
    membership_.layout =
        places.are_several_hosts()
            ? fit_host_memory()
            : fit_layout(ranks(), membership_.blocks, limit_,
                         membership_.lines == LineVerdict::whole ? LineSlots::of_collectives : LineSlots::none);
    membership_.peers.resize(places.records.size());
  }

  DeviceMembership run() {
    share_memory();
    agree_on_paths();
    if (membership_.paths.any_staged()) stage();
    agree_on_direct();
    tell();
    return std::move(membership_);
  }

 private:
  DevicePeer& peer(Rank rank) { return membership_.peers[static_cast<std::size_t>(rank)]; }
  const DeviceRecord& record(Rank rank) const { return places_.records[static_cast<std::size_t>(rank)]; }
  Rank ranks() const { return static_cast<Rank>(places_.records.size()); }
  bool is_remote(Rank rank) const { return !places_.on_one_host(rank_, rank); }
  std::string device_text(Rank rank) const {
    return record(rank).busid[0] == '\0' ? std::string("a device") : std::string(record(rank).busid.data());
  }

  // Called before the memory is allocated, because lines take a part of it.
  LineVerdict agree_on_lines(const Settings& settings) {
    const bool wanted = settings.protocol == ProtocolChoice::ll128 ||
                        (settings.protocol == ProtocolChoice::automatic && settings.lines_allowed);
    if (!wanted || ranks() == 1) return LineVerdict::not_wanted;
    if (places_.are_several_hosts()) return LineVerdict::host_memory;
    std::vector<LinePeer> peers;
    for (const DeviceRecord& record : places_.records) peers.push_back({record.id, record.busid.data()});
    const auto verdicts = gather_values(judge_lines(membership_.device, peers), "device", bootstrap_, deadline_);
    return *std::max_element(verdicts.begin(), verdicts.end());
  }

  void share_memory() {
    const auto own =
        gpu::DeviceMemory::allocate(membership_.device, membership_.layout.total_bytes(), gpu::MemoryUse::messages);
    FileDescriptor descriptor;
    const auto neighbour = std::make_shared<DeviceNeighbour>();
    Offer offer{register_shared(own), register_shared(neighbour), {}};
    if (ranks() > 1) offer.ticket = own->ticket(descriptor);
    const std::vector<Offer> offers = gather_values(offer, "device", bootstrap_, deadline_);
    auto descriptors = exchange_descriptor(offer.ticket.descriptor ? descriptor.get() : -1);
    verdicts_.assign(places_.records.size(), PathVerdict::good);
    peer(rank_).memory = own;
    peer(rank_).same_process = true;
    peer(rank_).neighbour = neighbour;
    for (Rank other = 0; other < ranks(); ++other) peer(other).same_device = places_.on_one_device(rank_, other);
    for (Rank other = 0; other < ranks(); ++other) {
      if (other == rank_ || is_remote(other)) continue;
      const auto at = static_cast<std::size_t>(other);
      const auto memory = find_shared<gpu::DeviceMemory>(offers[at].token);
      peer(other).same_process = memory != nullptr;
      peer(other).neighbour = find_shared<DeviceNeighbour>(offers[at].neighbour_token);
      verdicts_[at] = allowed_path(record(rank_).busid.data(), record(other).busid.data());
      if (verdicts_[at] == PathVerdict::good) reach(other, memory, offers[at].ticket, descriptors[at]);
    }
  }

  // -1 for `mine` means that no rank has a descriptor.
  std::vector<FileDescriptor> exchange_descriptor(int mine) {
    std::vector<FileDescriptor> first(places_.records.size());
    if (mine < 0) return first;
    std::vector<Rank> beside;
    for (Rank rank = 0; rank < ranks(); ++rank)
      if (!is_remote(rank)) beside.push_back(rank);
    // The hosts do so at the same time.
    auto descriptors = bootstrap_.exchange_descriptors(beside, std::array<int, 1>{mine}, deadline_);
    for (std::size_t i = 0; i < beside.size(); ++i)
      first[static_cast<std::size_t>(beside[i])] = std::move(descriptors[i].at(0));
    return first;
  }

  void reach(Rank other, const std::shared_ptr<gpu::DeviceMemory>& in_process, const gpu::Ticket& ticket,
             const FileDescriptor& descriptor) {
    PathVerdict& verdict = verdicts_[static_cast<std::size_t>(other)];
    try {
      if (!gpu::may_reach(membership_.device, record(other).id)) {
        verdict = PathVerdict::no_access;
        return;
      }
      if (in_process) in_process->admit(membership_.device);
      peer(other).memory = in_process ? in_process : gpu::DeviceMemory::map(membership_.device, ticket, descriptor);
    } catch (const Error& error) {
      verdict = PathVerdict::unmapped;
      log::info(log::Subsystem::p2p, "rank {} does not reach the memory of rank {}: {}", rank_, other, error.what());
    }
  }

  PathTable gather_verdicts() {
    std::vector<std::vector<PathVerdict>> all;
    for (const Bytes& bytes : bootstrap_.all_gather(std::as_bytes(std::span(verdicts_)), deadline_)) {
      all.emplace_back();
      for (const std::byte verdict : bytes) all.back().push_back(static_cast<PathVerdict>(verdict));
    }
    return PathTable(all);
  }

  void agree_on_paths() {
    membership_.paths = gather_verdicts();
    bool any = false;
    std::vector<Rank> doubtful;  // of this rank's peers
    for (Rank one = 0; one < ranks(); ++one)
      for (Rank other = 0; other < one; ++other) {
        if (!places_.on_one_host(one, other) || places_.on_one_device(one, other) ||
            membership_.paths.staged(one, other))
          continue;
        any = true;
        if (one == rank_ || other == rank_) doubtful.push_back(one == rank_ ? other : one);
      }
    if (!any) return;
    const auto barrier = [this] { bootstrap_.all_gather({}, deadline_); };
    const auto found = check_peers(membership_.device, membership_.layout, rank_, doubtful, membership_.peers, barrier);
    for (std::size_t i = 0; i < found.size(); ++i) verdicts_[static_cast<std::size_t>(doubtful[i])] = found[i];
    membership_.paths = gather_verdicts();
  }

  // Traffic over the host's buses needs fewer channels, and pinned memory is expensive.
  DeviceLayout fit_host_memory() const {
    return fit_layout(ranks(), std::min(membership_.blocks, kMostStagedChannels), std::min(limit_, kMostStagedBytes));
  }

  void stage() {
    const PathTable& paths = membership_.paths;
    if (env::flag("NCCL_SHM_DISABLE", false))
      fail(ErrorCode::invalid_usage,
           "rank {}: devices that do not reach each other need shared host memory, which "
           "NCCL_SHM_DISABLE forbids: unset it",
           rank_);
    if (membership_.lines == LineVerdict::whole) membership_.lines = LineVerdict::host_memory;
    membership_.layout = fit_host_memory();
    const auto bytes_of = [&](Rank rank) {
      const auto sources = static_cast<int>(paths.staged_sources(rank).size());
      return DeviceLayout(sources, membership_.layout.channels(), membership_.layout.slot_bytes()).total_bytes();
    };
    const auto own = StagedMemory::create(membership_.device, bytes_of(rank_));
    const Offer offer{register_shared(own), 0, {}};
    const std::vector<Offer> offers = gather_values(offer, "device", bootstrap_, deadline_);
    const auto descriptors = exchange_descriptor(own->descriptor());
    own->close_descriptor();
    for (Rank other = 0; other < ranks(); ++other) {
      if (other != rank_ && !paths.staged(rank_, other)) continue;
      const auto at = static_cast<std::size_t>(other);
      DevicePeer& entry = peer(other);
      entry.staged = other == rank_ ? own : find_shared<StagedMemory>(offers[at].token);
      if (!entry.staged) entry.staged = StagedMemory::map(membership_.device, descriptors[at], bytes_of(other));
      entry.staged_address = entry.staged->address_for(membership_.device);
      if (other != rank_) entry.memory = nullptr;  // one of the two devices cannot reach the other, or data was wrong
    }
  }

  // Kernels may use the buffers of all ranks in place if all ranks share a process and a device. Buffers of other
  // processes are mapped only in windows. Buffers of other devices are mapped only in windows or by the program.
  void agree_on_direct() {
    struct Verdict {
      bool all_buffers;
      bool direct;
      bool windows;
    } mine{!membership_.paths.any_staged(), !env::flag("NCCL_P2P_DIRECT_DISABLE", false),
           env::flag("NCCL_WIN_ENABLE", true)};
    for (Rank other = 0; other < ranks(); ++other)
      if (!peer(other).same_process || record(other).id != membership_.device.id) mine.all_buffers = false;
    membership_.direct = true;
    for (const Verdict& verdict : gather_values(mine, "device", bootstrap_, deadline_)) {
      membership_.direct = membership_.direct && verdict.all_buffers && verdict.direct;
      if (!verdict.windows) membership_.no_windows_in_place = "NCCL_WIN_ENABLE is 0";
      if (!verdict.direct) membership_.no_windows_in_place = "NCCL_P2P_DIRECT_DISABLE is set";
    }
    if (places_.are_several_hosts()) membership_.no_windows_in_place = "the ranks run on several hosts";
  }

  // Kernels of ranks that share a process and a device wait for each other. Each kernel needs a hardware queue of its
  // own, so that no other work delays its start.
  void tell_of_queues() const {
    int beside = 1;
    for (Rank other = 0; other < ranks(); ++other)
      if (other != rank_ && membership_.peers[static_cast<std::size_t>(other)].neighbour &&
          record(other).id == record(rank_).id) {
        if (other < rank_) return;  // the lower rank logs the warning
        ++beside;
      }
    const auto queues = gpu::hardware_queues();
    if (membership_.device.driver->vendor != gpu::Vendor::cuda || beside == 1 || queues > beside) return;
    log::warn(
        "{} ranks of this process share device {} and its {} hardware queues (CUDA_DEVICE_MAX_CONNECTIONS), so that "
        "calls on one stream may hold up others for which they wait: put the ranks' calls between ncclGroupStart and "
        "ncclGroupEnd, or set CUDA_DEVICE_MAX_CONNECTIONS=32 before the program starts",
        beside, membership_.device.ordinal, queues);
  }

  // The lower rank of each pair logs one line.
  void tell() const {
    tell_of_queues();
    for (Rank other = rank_ + 1; other < ranks(); ++other) {
      const PathVerdict verdict = membership_.paths.verdict(rank_, other);
      if (verdict == PathVerdict::good) continue;
      const std::string text = fmt::format("ranks {} ({}) and {} ({}) exchange data through host memory: {}", rank_,
                                           device_text(rank_), other, device_text(other), cause(verdict));
      if (verdict == PathVerdict::wrong_data || verdict == PathVerdict::timed_out || verdict == PathVerdict::unseen)
        log::warn("{}", text);
      else
        log::info(log::Subsystem::init, "{}", text);
    }
  }

  Rank rank_;
  Places places_;
  Bootstrap& bootstrap_;
  Deadline deadline_;
  std::size_t limit_;
  DeviceMembership membership_;
  std::vector<PathVerdict> verdicts_;  // of this rank
};

}  // namespace

DeviceMembership share_device_memory(Rank rank, const gpu::Device& device, std::span<const DeviceRecord> records,
                                     std::span<const int> host_of, const Settings& settings, Bootstrap& bootstrap,
                                     Deadline deadline) {
  return DeviceExchange(rank, device, {records, host_of}, settings, bootstrap, deadline).run();
}

}  // namespace sccl::runtime
