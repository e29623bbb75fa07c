#include "runtime/windows/one_sided.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/settings/log.h"
#include "platform/gpu/user_memory.h"
#include "platform/host/peer_memory.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/gpu/kernel/device_executor.h"
#include "runtime/windows/device_window.h"
#include "runtime/windows/host_reach.h"
#include "runtime/windows/remote_puts.h"

namespace sccl::runtime {

struct WindowRecord {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  ReachProbe probe;  // over hosts
};

namespace {

constexpr const char* kRegister = "ncclCommWindowRegister";
constexpr const char* kWait = "ncclWaitSignal";

std::size_t index(const SignalAddress& address) {
  return (static_cast<std::size_t>(address.peer) * MemoryLayout::kSignals + static_cast<std::size_t>(address.signal)) *
             MemoryLayout::kContexts +
         static_cast<std::size_t>(address.context);
}

}  // namespace

OneSided::OneSided(const Membership& membership, ControlAllGather& control_all_gather, DeviceExecutor* device,
                   NetTransport* net, const StopFlags& stop)
    : membership_(membership),
      control_all_gather_(control_all_gather),
      device_(device),
      net_(net),
      remote_(net != nullptr ? std::make_unique<RemotePuts>(membership.control, control_all_gather, *net) : nullptr),
      stop_(stop),
      used_(static_cast<std::size_t>(membership.ranks) * MemoryLayout::kSignals * MemoryLayout::kContexts, 0) {}

OneSided::~OneSided() = default;

const Window* OneSided::register_window(void* base, std::size_t bytes, WindowUse use) {
  if (device_ != nullptr && membership_.hosts.are_several()) {
    log::info(log::Subsystem::init, "rank {}: no window, since the devices are on several hosts", membership_.rank);
    return nullptr;
  }
  if (device_ != nullptr) {
    auto window = map_window(membership_, control_all_gather_, stop_.abort, {base, bytes, use, next_window_});
    if (!window) return nullptr;
    next_window_ = window->number + 1;
    return add(std::move(window));
  }
  if (!is_mapped(base, bytes)) {
    const std::string text = fmt::format(
        "rank {} registers a window of {} bytes at {}, where not all of them are memory of its process: "
        "pass a buffer of that size",
        membership_.rank, bytes, base);
    control_all_gather_.refuse(text);
    fail(ErrorCode::invalid_argument, "{}", text);
  }
  auto window = std::make_unique<Window>();
  window->base = base;
  window->bytes = bytes;
  const std::vector<WindowRecord> records = exchange_records(*window);
  window->mappings = hold_memory(*window);
  if (remote_) return register_over_hosts(std::move(window), records);
  if (!membership_.reaches_buffers()) {
    log::info(log::Subsystem::init, "rank {}: no window, since the ranks cannot write into one another's memory",
              membership_.rank);
    return nullptr;
  }
  return add(std::move(window));
}

// All ranks' records. Throws invalid_argument when the sizes differ.
std::vector<WindowRecord> OneSided::exchange_records(Window& window) {
  const WindowRecord mine{reinterpret_cast<std::uint64_t>(window.base), window.bytes, reach_probe_of_process()};
  std::vector<WindowRecord> records;
  for (const ControlAllGather::Payload& payload :
       control_all_gather_.all_gather(kRegister, std::as_bytes(std::span(&mine, 1)), Deadline::in(init_timeout()),
                                      ControlAllGather::Revoked::is_gone)) {
    WindowRecord& record = records.emplace_back();
    std::memcpy(&record, payload.data(), sizeof record);
    if (record.bytes != window.bytes)
      fail(ErrorCode::invalid_argument,
           "rank {} registers a window of {} bytes and rank {} one of {}: give all ranks' windows one size",
           membership_.rank, window.bytes, window.bases.size(), record.bytes);
    window.bases.push_back(record.base);
  }
  return records;
}

// A program may free memory that lies in a window, in this rank or in a peer of this process. A later put would end the
// process, or write into what came to lie there.
std::shared_ptr<void> OneSided::hold_memory(const Window& window) const {
  auto held = std::make_shared<std::vector<std::shared_ptr<void>>>();
  for (Rank rank = 0; rank < membership_.ranks; ++rank)
    if (rank == membership_.rank || membership_.peer(rank).shares_address_space())
      held->push_back(
          hold_user_memory(reinterpret_cast<const void*>(window.bases[static_cast<std::size_t>(rank)]), window.bytes));
  return held;
}

// A window needs that ranks of one host can write into one another's memory. Between hosts puts are messages.
const Window* OneSided::register_over_hosts(std::unique_ptr<Window> window, std::span<const WindowRecord> records) {
  std::string obstacle;
  for (Rank rank = 0; rank < membership_.ranks && obstacle.empty(); ++rank)
    if (const Peer& peer = membership_.peer(rank); peer.locality == Locality::host)
      obstacle = obstacle_to(rank, peer.process, records[static_cast<std::size_t>(rank)].probe);
  // Before any rank can know that the window is one: its first put may come before this rank returns.
  window->number = next_window_++;
  if (obstacle.empty()) remote_->windows().open(window->number, window->base, window->bytes);
  const std::uint8_t possible = obstacle.empty() ? 1 : 0;
  Rank hindered = -1;
  const auto verdicts =
      control_all_gather_.all_gather(kRegister, std::as_bytes(std::span(&possible, 1)), Deadline::in(init_timeout()),
                                     ControlAllGather::Revoked::is_gone);
  for (std::size_t rank = 0; rank < verdicts.size() && hindered < 0; ++rank)
    if (verdicts[rank].front() == std::byte{0}) hindered = static_cast<Rank>(rank);
  if (hindered < 0) return add(std::move(window));
  remote_->windows().close(window->number);
  log::info(log::Subsystem::init,
            "rank {}: no window, since rank {} cannot write into the memory of a rank of its host{}", membership_.rank,
            hindered, obstacle.empty() ? "" : " (" + obstacle + ")");
  return nullptr;
}

const Window* OneSided::add(std::unique_ptr<Window> window) {
  const Window* handle = window.get();
  const std::lock_guard lock(mutex_);
  if (device_ != nullptr) device_->add_window(*window);
  windows_[handle] = std::move(window);
  had_windows_.store(true, std::memory_order_relaxed);
  return handle;
}

void OneSided::deregister_window(const Window* window) {
  const std::lock_guard lock(mutex_);
  const auto found = windows_.find(window);
  if (found == windows_.end()) fail_unknown(window);
  if (device_ != nullptr) device_->remove_window(*window);
  if (remote_) remote_->windows().close(window->number);
  windows_.erase(found);
  if (device_ != nullptr) device_->drop_unused();
}

const Window& OneSided::window(const Window* handle) const {
  if (!has(handle)) fail_unknown(handle);
  return *handle;
}

bool OneSided::has(const Window* window) const {
  const std::lock_guard lock(mutex_);
  return windows_.contains(window);
}

void OneSided::fail_unknown(const Window* window) const {
  fail(ErrorCode::invalid_usage,
       "rank {}: window {} is not one of this communicator's: pass one that its ncclCommWindowRegister returned and "
       "that was not deregistered since",
       membership_.rank, static_cast<const void*>(window));
}

void* OneSided::register_buffer(void* base, std::size_t bytes) {
  auto entry = std::make_unique<std::pair<void*, std::size_t>>(base, bytes);
  void* handle = entry.get();
  if (net_ != nullptr) net_->memory().buffers.add(base, bytes);
  const std::lock_guard lock(mutex_);
  buffers_[handle] = std::move(entry);
  return handle;
}

void OneSided::deregister_buffer(void* handle) {
  std::unique_ptr<std::pair<void*, std::size_t>> buffer;
  {
    const std::lock_guard lock(mutex_);
    const auto found = buffers_.find(handle);
    if (found == buffers_.end())
      fail(ErrorCode::invalid_usage, "handle {} is not one that this communicator's ncclCommRegister returned", handle);
    buffer = std::move(found->second);
    buffers_.erase(found);
  }
  if (net_ == nullptr) return;
  net_->memory().buffers.remove(buffer->first, buffer->second);
  // The engine reads nothing there any more: no call is under way.
  const auto engine = net_->turns().hold();
  for (Rank peer = 0; peer < membership_.ranks; ++peer)
    if (net_->reaches(peer)) {
      net_->link(peer).outgoing().drop_stale_registrations();
      net_->link(peer).incoming().drop_stale_registrations();
    }
}

void OneSided::put(const PutRequest& request) {
  const SignalAddress& to = request.to;
  check(to);
  if (remote_ && remote_->serves(to.peer)) return put_over_hosts(request);
  if (request.window == nullptr) return signal(to);
  const std::span<const std::byte> data = request.data;
  // The C boundary has checked that the data fit into the window. The window has the same size on every rank.
  const std::uint64_t address = request.window->bases[static_cast<std::size_t>(to.peer)] + request.offset;
  const int error = write(to.peer, address, data);
  if (error == ECANCELED || error == ESRCH) fail_left(to.peer);  // ESRCH: its process has ended
  if (error != 0)
    fail(ErrorCode::remote_error, "rank {} cannot write into the window of rank {} ({}): look at that rank's output",
         membership_.rank, to.peer, std::strerror(error));
  signal(to);
}

// ECANCELED when the peer's communicator has failed or ended: its window is then the program's own memory again. Either
// this rank sees that, or the peer sees that this rank is writing and waits (runtime/control/withdrawal.h).
int OneSided::write(Rank rank, std::uint64_t address, std::span<const std::byte> data) const {
  const Peer& peer = membership_.peer(rank);
  Withdrawal withdrawal = membership_.control.withdrawal();
  withdrawal.touch();
  int error = 0;
  if (withdrawal.has_withdrawn(rank) || membership_.control.health().presence(rank) != Presence::present)
    error = ECANCELED;
  else if (!peer.shares_address_space())
    error = host::write_peer(peer.process, address, data.data(), data.size());
  else if (!data.empty())
    std::memmove(reinterpret_cast<void*>(address), data.data(), data.size());
  withdrawal.release();
  return error;
}

void OneSided::put_over_hosts(const PutRequest& request) {
  const Rank peer = request.to.peer;
  if (membership_.control.health().is_gone(peer)) fail_left(peer);
  const char* const purpose = request.window == nullptr ? "ncclSignal" : "ncclPutSignal";
  remote_->put(request, purpose, [&] { check_usable(peer, purpose); });
}

// For a wait for `peer`: throws if this rank was revoked, or if the peer has failed.
void OneSided::check_usable(Rank peer, const char* purpose) const {
  if (stop_.revoked.load(std::memory_order_acquire))  // pairs with Communicator::revoke
    fail(ErrorCode::invalid_usage, "{}: rank {} was revoked", purpose, membership_.rank);
  membership_.control.health().check_fault(peer, std::string(purpose) + ": ");
}

void OneSided::fail_left(Rank rank) const {
  const PeerHealth health = membership_.control.health();
  health.check_fault(rank);
  health.fail_departed(rank, health.presence(rank), "PutSignal");
}

void OneSided::give_windows_back() {
  if (!had_windows_.load(std::memory_order_relaxed)) return;
  if (remote_) remote_->windows().close_all();
  membership_.control.withdrawal().await_release();
}

void OneSided::signal(const SignalAddress& to) {
  const Peer& peer = membership_.peers[static_cast<std::size_t>(to.peer)];
  // The copy, by the system or by this thread, is complete before the peer sees the count; pairs with arrived() there.
  membership_.layout.signal(peer.segment->data(), membership_.rank, to.signal, to.context)
      .fetch_add(1, std::memory_order_release);
  membership_.control.bells().wake(to.peer);
}

void OneSided::wait(std::span<const SignalWait> waits) {
  struct Wanted {
    SignalAddress from;
    std::uint64_t count = 0;  // total of this signal
  };
  std::map<std::size_t, Wanted> wanted;
  for (const SignalWait& wait : waits) {
    check(wait.from);
    Wanted& entry = wanted[index(wait.from)];
    entry.from = wait.from;
    entry.count += wait.count;
  }
  std::vector<Rank> missing;
  const auto done = [&] {
    missing.clear();
    for (const auto& [at, entry] : wanted)
      if (arrived(entry.from) - used_[at] < entry.count) missing.push_back(entry.from.peer);
    for (const Rank rank : missing) check_usable(rank, kWait);
    return missing.empty();
  };
  if (remote_)
    remote_->wait_until(kWait, missing, done);
  else
    control_all_gather_.wait_until(kWait, missing, Deadline::never(), done, nullptr,
                                   ControlAllGather::Revoked::is_gone);
  for (const auto& [at, entry] : wanted) used_[at] += entry.count;
}

void OneSided::check(const SignalAddress& address) const {
  if (address.peer < 0 || address.peer >= membership_.ranks)
    fail(ErrorCode::invalid_argument, "rank {}: peer {} is not a rank of 0..{}", membership_.rank, address.peer,
         membership_.ranks - 1);
  if (device_ != nullptr && membership_.hosts.is_remote(membership_.rank, address.peer))
    fail(
        ErrorCode::invalid_usage,
        "rank {}: rank {} is on another host, and one-sided calls do not go from device to device over hosts: use Send "
        "and Recv",
        membership_.rank, address.peer);
  if (address.signal < 0 || address.signal >= MemoryLayout::kSignals || address.context < 0 ||
      address.context >= MemoryLayout::kContexts)
    fail(ErrorCode::invalid_argument, "signal {} of context {}: signals are 0..{}, contexts 0..{}", address.signal,
         address.context, MemoryLayout::kSignals - 1, MemoryLayout::kContexts - 1);
}

std::uint64_t OneSided::arrived(const SignalAddress& from) const {
  std::byte* own = membership_.peers[static_cast<std::size_t>(membership_.rank)].segment->data();
  return membership_.layout.signal(own, from.peer, from.signal, from.context)
      .load(std::memory_order_acquire);  // pairs with signal() at the peer
}

}  // namespace sccl::runtime
