#include "runtime/windows/device_window.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/settings/log.h"
#include "platform/gpu/user_memory.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/transport/stream/stream_path.h"

namespace sccl::runtime {
namespace {

constexpr auto kRevoked = ControlAllGather::Revoked::is_gone;
constexpr const char* kPurpose = "ncclCommWindowRegister";

struct WindowRecord {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // from the start of the ticket's memory to `base`
  gpu::Ticket ticket;
  std::uint32_t number = 0;
  std::uint8_t exported = 0;
  WindowUse use = WindowUse::one_sided;
};
static_assert(sizeof(WindowRecord) <= ControlAllGather::kMostBytes);

// Keeps the peers' buffers mapped.
using Mappings = std::vector<std::shared_ptr<gpu::DeviceMemory>>;

class WindowExchange {
 public:
  WindowExchange(const Membership& membership, ControlAllGather& control_all_gather, const std::atomic<bool>& abort)
      : membership_(membership),
        on_device_(*membership.on_device),
        control_all_gather_(control_all_gather),
        abort_(abort) {}

  std::unique_ptr<Window> run(const WindowOffer& offer) {
    const std::vector<WindowRecord> records = show_records(offer);
    auto window = std::make_unique<Window>();
    window->base = offer.base;
    window->bytes = offer.bytes;
    for (const WindowRecord& record : records) window->number = std::max(window->number, record.number);
    const std::vector<FileDescriptor> descriptors = exchange_descriptors(records);
    auto mappings = std::make_shared<Mappings>();
    for (Rank rank = 0; rank < membership_.ranks; ++rank)
      window->bases.push_back(
          reach(rank, records[static_cast<std::size_t>(rank)], descriptors[static_cast<std::size_t>(rank)], *mappings));
    const std::string hindrance = hindrance_in_place(records);
    window->in_place = hindrance.empty();
    if (window->in_place && !in_one_process()) window->shifts = keep_shifts(*window, records, *mappings);
    window->mappings = std::move(mappings);
    if (!all_reach()) return nullptr;
    if (membership_.rank == 0)
      log::info(log::Subsystem::init, "window {} of {} bytes: {}", window->number, window->bytes,
                window->in_place ? "collectives use buffers in it in place"
                                 : "collectives go through slots, since " + hindrance);
    return window;
  }

 private:
  // If all ranks are in this process, the buffer is not exported.
  std::vector<WindowRecord> show_records(const WindowOffer& offer) {
    const std::size_t bytes = offer.bytes;
    WindowRecord mine;
    mine.base = reinterpret_cast<std::uint64_t>(offer.base);
    mine.bytes = bytes;
    mine.number = offer.number;
    mine.use = offer.use;
    if (!in_one_process()) this->offer(mine, offer.base);
    std::vector<WindowRecord> records;
    for (const ControlAllGather::Payload& payload :
         control_all_gather_.all_gather(kPurpose, std::as_bytes(std::span(&mine, 1)), deadline_, kRevoked)) {
      WindowRecord& record = records.emplace_back();
      std::memcpy(&record, payload.data(), sizeof record);
      if (record.bytes != bytes)
        fail(ErrorCode::invalid_argument,
             "rank {} registers a window of {} bytes and rank {} one of {}: give all ranks' windows one size",
             membership_.rank, bytes, records.size() - 1, record.bytes);
    }
    return records;
  }

  bool in_one_process() const {
    return std::all_of(on_device_.peers.begin(), on_device_.peers.end(),
                       [](const DevicePeer& peer) { return peer.same_process; });
  }

  void offer(WindowRecord& mine, const void* base) {
    try {
      if (const auto memory = find_user_memory(base, mine.bytes)) {
        mine.ticket = memory->ticket(descriptor_);
        mine.offset = mine.base - memory->address();
      } else {
        mine.ticket = gpu::ticket_for(on_device_.device, mine.base, mine.offset);
      }
      mine.exported = 1;
    } catch (const Error& error) {
      obstacle_ = error.what();
    }
  }

  // Descriptors pass through a separate exchange, whose id rank 0 creates. If no rank's ticket needs a descriptor,
  // there is no such exchange.
  std::vector<FileDescriptor> exchange_descriptors(const std::vector<WindowRecord>& records) {
    std::vector<FileDescriptor> received(records.size());
    const auto needs = [](const WindowRecord& record) { return record.exported != 0 && record.ticket.descriptor; };
    if (std::none_of(records.begin(), records.end(), needs)) return received;
    UniqueId id;
    try {
      if (membership_.rank == 0) id = create_private_id();
    } catch (const Error& error) {
      control_all_gather_.refuse(error.what());
      throw;
    }
    const auto ids = control_all_gather_.all_gather(kPurpose, id.bytes, deadline_, kRevoked);
    std::memcpy(id.bytes.data(), ids.front().data(), id.bytes.size());
    std::vector<Rank> all(records.size());
    std::iota(all.begin(), all.end(), 0);
    Bootstrap exchange(id, membership_.rank, membership_.ranks, deadline_, abort_,
                       [&] { control_all_gather_.check_alive(kPurpose, all); });
    if (!descriptor_.valid()) descriptor_ = FileDescriptor(::memfd_create("sccl-none", MFD_CLOEXEC));
    auto descriptors = exchange.exchange_descriptors(all, std::array<int, 1>{descriptor_.get()}, deadline_);
    for (std::size_t rank = 0; rank < received.size(); ++rank) received[rank] = std::move(descriptors[rank].at(0));
    return received;
  }

  // The address at which this rank's kernels reach the peer's buffer. If they cannot reach it: 0, and obstacle_ says
  // why.
  std::uint64_t reach(Rank rank, const WindowRecord& record, const FileDescriptor& descriptor, Mappings& mappings) {
    const DevicePeer& peer = on_device_.peers[static_cast<std::size_t>(rank)];
    if (rank == membership_.rank) return record.base;
    if (on_device_.paths.staged(membership_.rank, rank)) {
      obstacle_ = fmt::format("the device of rank {} is out of reach", rank);
      return 0;
    }
    try {
      if (peer.same_process) {
        const auto memory = find_user_memory(reinterpret_cast<const void*>(record.base), record.bytes);
        memory ? memory->admit(on_device_.device) : gpu::enable_peer_access(on_device_.device, peer.memory->device());
        if (gpu::is_open_to(on_device_.device, record.base)) return record.base;
        obstacle_ = fmt::format("the buffer of rank {} is open to its own device alone (cuMemSetAccess)", rank);
        return 0;
      }
      if (record.exported == 0) {
        obstacle_ = fmt::format("the buffer of rank {} cannot be given to other processes", rank);
        return 0;
      }
      mappings.push_back(gpu::DeviceMemory::map(on_device_.device, record.ticket, descriptor));
      return mappings.back()->address() + record.offset;
    } catch (const Error& error) {
      obstacle_ = error.what();
      return 0;
    }
  }

  // Why collectives cannot use buffers in the window in place; empty if they can. Equal on all ranks.
  std::string hindrance_in_place(const std::vector<WindowRecord>& records) const {
    for (std::size_t rank = 0; rank < records.size(); ++rank)
      if (records[rank].use != WindowUse::symmetric)
        return fmt::format("rank {} registered it without NCCL_WIN_COLL_SYMMETRIC", rank);
    if (on_device_.streams && on_device_.streams->all_calls)
      return "streams order the calls of processes that share a device";
    return on_device_.no_windows_in_place;
  }

  // Table by rank: the distance from the rank's own address of its window to this rank's address of the same memory.
  std::uint64_t keep_shifts(const Window& window, const std::vector<WindowRecord>& records, Mappings& mappings) {
    std::vector<std::uint64_t> shifts;
    for (std::size_t rank = 0; rank < records.size(); ++rank) shifts.push_back(window.bases[rank] - records[rank].base);
    gpu::Device plain = on_device_.device;
    plain.vmm = false;  // a few words, for this rank only
    try {
      mappings.push_back(gpu::DeviceMemory::allocate(plain, shifts.size() * sizeof shifts[0]));
      mappings.back()->write(0, shifts.data(), shifts.size() * sizeof shifts[0]);
    } catch (const Error& error) {
      obstacle_ = error.what();
      return 0;
    }
    return mappings.back()->address();
  }

  bool all_reach() {
    const std::uint8_t verdict = obstacle_.empty() ? 1 : 0;
    bool all = true;
    for (const ControlAllGather::Payload& payload :
         control_all_gather_.all_gather(kPurpose, std::as_bytes(std::span(&verdict, 1)), deadline_, kRevoked))
      all = all && payload.front() == std::byte{1};
    if (!obstacle_.empty())
      log::info(log::Subsystem::init,
                "rank {}: no window, since kernels cannot write into it from everywhere ({}): allocate it "
                "with ncclMemAlloc or cudaMalloc",
                membership_.rank, obstacle_);
    return all;
  }

  const Membership& membership_;
  const DeviceMembership& on_device_;
  ControlAllGather& control_all_gather_;
  const std::atomic<bool>& abort_;
  Deadline deadline_ = Deadline::in(init_timeout());
  FileDescriptor descriptor_;
  std::string obstacle_;
};

}  // namespace

std::unique_ptr<Window> map_window(const Membership& membership, ControlAllGather& control_all_gather,
                                   const std::atomic<bool>& abort, const WindowOffer& offer) {
  return WindowExchange(membership, control_all_gather, abort).run(offer);
}

}  // namespace sccl::runtime
