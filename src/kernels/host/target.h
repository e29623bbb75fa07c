// The host's vocabulary for the interpreter: what a load, a store, a copy and a wake-up are on a processor.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "kernels/device/interpreter.h"
#include "kernels/host/messages/connection.h"
#include "kernels/host/messages/inline_messages.h"
#include "kernels/host/messages/shared_slots.h"
#include "kernels/host/messages/slot_places.h"
#include "kernels/host/messages/slot_stores.h"
#include "kernels/host/reduce/reduce_copy.h"
#include "platform/host/doorbell.h"
#include "platform/host/fences.h"
#include "platform/host/peer_memory.h"

namespace sccl::kernels {

class HostTarget {
 public:
  using u8 = device::u8;
  using u32 = device::u32;
  using u64 = device::u64;
  using Connection = HostConnection;

  // Room for operations of `operands` operands and `destinations` destinations, with bounce buffers of `bounce_bytes`.
  // Grows only; called before a call runs.
  void reserve(std::size_t operands, std::size_t destinations, std::size_t bounce_bytes) {
    for (Desk& desk : desks_) {
      if (desk.sources.size() < operands) desk.sources.resize(operands);
      if (desk.sinks.size() < destinations + 1) desk.sinks.resize(destinations + 1);
    }
    bounce_bytes_ = bounce_bytes;
    if (bounce_.size() < (operands + 1) * bounce_bytes) bounce_.resize((operands + 1) * bounce_bytes);
  }

  // Memory orders of the protocol; connection.h and protocol.h name the pair of each.
  static u64 load_acquire(const u64* from) { return __atomic_load_n(from, __ATOMIC_ACQUIRE); }
  static u64 load_relaxed(const u64* from) { return __atomic_load_n(from, __ATOMIC_RELAXED); }
  static void store_release(u64* to, u64 value) { __atomic_store_n(to, value, __ATOMIC_RELEASE); }
  static void store_relaxed(u64* to, u64 value) { __atomic_store_n(to, value, __ATOMIC_RELAXED); }
  // Every flag is acquired and released by its own access here, which costs nothing on the host.
  static constexpr bool kSignedFlags = false;
  static u64 load_polled(const u64* from) { return load_acquire(from); }
  static void store_published(u64* to, u64 value) { store_release(to, value); }
  static constexpr void acquire(device::Scope) {}
  static constexpr void release(device::Scope) {}
  static constexpr void watch(const u64*, u64) {}  // may_go_on() looks at messages only
  // Lanes of a rank take turns on one thread of the host.
  static constexpr device::Scope reach_of_lanes() { return device::Scope::none; }
  static u64* lane_word(device::LaneState* lanes, u32 lane) { return &lanes[lane].finished; }
  static u64 load_lane(const u64* from) { return *from; }
  static void store_lane(u64* to, u64 value) { *to = value; }
  // Orders a message before the read of its receiver's bell.
  void fence() const { host::light_fence(heavy_sleepers_); }
  // Whether the heavy fences of sleepers reach all processes of the communicator (host::let_others_fence).
  void set_heavy_sleepers(bool heavy) { heavy_sleepers_ = heavy; }

  // One thread leads and does all the work.
  static constexpr bool kAlone = true;
  using Ll = InlineMessages<HostTarget>;
  static constexpr bool kLendsSlots = true;
  static u32 depth(const Connection& connection, u64 bytes) { return depth_for(connection, bytes); }
  static u8* slot(const Connection& connection, u64 bytes) {
    return connection.payload + slot_offset(connection, connection.position, bytes);
  }
  static constexpr bool kKeepsLines = false;
  static constexpr u32 thread() { return 0; }
  static constexpr u32 threads() { return 1; }
  static constexpr bool leads() { return true; }
  static constexpr void sync() {}
  template <typename Begun>
  static Begun& begun(Begun& mine) {
    return mine;
  }
  template <typename Function, typename Then>
  static device::Outcome await(Function&& function, Then&&) {
    return function();
  }
  template <typename Function>
  static bool all(Function&& function) {
    return function();
  }
  template <typename Function>
  static void commit(Function&& function) {
    function();
  }

  device::Source* sources() { return desks_[held_].sources.data(); }
  u8** sinks() { return desks_[held_].sinks.data(); }
  u8* bounce(u32 operand) { return bounce_.data() + (operand + 1) * bounce_bytes_; }
  u8* result() { return bounce_.data(); }

  static u64 one_bits(DataType type) { return kernels::one_bits(type); }

  // Destinations between the two addresses are not read again soon. Both 0: all destinations are.
  void stream_everything() { stream_between(nullptr, reinterpret_cast<const void*>(UINTPTR_MAX)); }
  void stream_between(const void* begin, const void* end) {
    stream_begin_ = reinterpret_cast<std::uintptr_t>(begin);
    stream_end_ = reinterpret_cast<std::uintptr_t>(end);
  }

  // From which buffers of the call payloads may be sent to other hosts as they lie there.
  struct Shown {
    bool input = false;
    bool output = false;
  };
  static constexpr std::size_t kLeastShownBytes = 16384;  // shorter ones are copied into frames
  void may_show(Shown shown) {
    may_show_ = shown;
    has_shown_ = false;
  }
  bool shows(const Connection& connection, device::Buffer buffer, u64 bytes) {
    const bool may = buffer == device::Buffer::input    ? may_show_.input
                     : buffer == device::Buffer::output ? may_show_.output
                                                        : false;
    if (!may || !connection.takes_from_buffers || bytes < kLeastShownBytes) return false;
    return has_shown_ = true;
  }
  bool has_shown() const { return has_shown_; }

  void fills_slot(u32 sink, const Connection& connection) {
    if (filled_.size() <= filled_count_) filled_.resize(filled_count_ + 1);
    filled_[filled_count_++] = {sink, connection.peer};
  }

  void reduce_copy(const device::Call& call, const device::Source* sources, u32 source_count, bool scaled, u8** sinks,
                   u32 sink_count, u64 elements, u32 divisor) {
    static_assert(sizeof(device::Source) == sizeof(Operand) &&
                  offsetof(device::Source, scale_bits) == offsetof(Operand, scale_bits));
    const u64 bytes = elements * call.element_bytes;
    const bool copies = source_count == 1 && !scaled && divisor <= 1;
    ReduceCopy work{copies ? DataType::int8 : call.type,
                    call.kernel,
                    reinterpret_cast<const Operand*>(sources),
                    static_cast<int>(source_count),
                    scaled,
                    divisor,
                    reinterpret_cast<void* const*>(sinks),
                    static_cast<int>(sink_count),
                    copies ? bytes : elements,
                    streamed(sinks, sink_count)};
    const u32 filled = filled_count_;
    filled_count_ = 0;
    if (filled > 0 && bytes >= SlotStores::kLeastBytes) return fill_slots(work, filled, bytes);
    move(work);
  }

  // From hold() to move_held() moves are collected, so that up to kMostHeld of them are made together.
  static constexpr std::size_t kMostHeld = 8;
  void hold() { holds_ = true; }
  void move_held() {
    std::array<ReduceCopy, kMostHeld> works;
    for (std::size_t i = 0; i < held_; ++i) works[i] = desks_[i].work;
    kernels::reduce_copy_together({works.data(), held_});
    drop_held();
  }
  // Drops the moves of a call that has failed.
  void drop_held() {
    holds_ = false;
    held_ = 0;
  }

  // By rank: not 0 once other ranks must no longer write to the rank's buffers.
  void set_withdrawals(std::vector<const std::atomic<u32>*> withdrawn) { withdrawn_ = std::move(withdrawn); }

  // By rank: where the rank's slots lie in this process; ranks tell one another places relative to this address.
  void set_shared_memory(std::vector<u8*> bases) { bases_ = std::move(bases); }

  // A slot of a message to another host is not seen by others: its payload goes there.
  static bool shares_slots(const device::Call& call, const Connection& connection) {
    return call.lends_slots && connection.shared_slots != nullptr;
  }
  u64 lend(Connection& lender, Connection& borrower) {
    lender.shared_slots->lend(lender, borrower);
    const u8* const payload = device::Slots<HostTarget>::payload(lender);
    const auto owner = static_cast<u64>(lender.peer);
    return (owner + 1) << kOwnerShift | static_cast<u64>(payload - bases_[owner]);
  }
  // In the memory of another rank of this host, or, without an owner, at an address.
  u8* lent_payload(u64 place) const {
    const u64 owner = place >> kOwnerShift;
    return owner == 0 ? reinterpret_cast<u8*>(place) : bases_[owner - 1] + (place & ((u64{1} << kOwnerShift) - 1));
  }
  static const Connection* still_read(const Connection& connection) {
    if (connection.shared_slots == nullptr) return nullptr;
    return connection.shared_slots->reader<HostTarget>(connection);
  }

  bool fetch(const Connection& connection, u8* to, u64 address, u64 bytes) {
    error_ = host::read_peer(connection.peer_process, to, address, bytes);
    failed_peer_ = connection.peer;
    return error_ == 0;
  }
  bool put(const Connection& connection, u64 address, const u8* from, u64 bytes) {
    failed_peer_ = connection.peer;
    // Pairs with Withdrawal::withdraw. Tested after the operation's reads: they take any time if this process was
    // stopped.
    const auto* const withdrawn = withdrawn_.at(static_cast<std::size_t>(connection.peer));
    if (withdrawn->load(std::memory_order_acquire) != 0) {
      error_ = ECANCELED;
      return false;
    }
    error_ = host::write_peer(connection.peer_process, address, from, bytes);
    return error_ == 0;
  }

  void ring(const Connection& connection) {
    fence();
    ring_after_fence(connection);
  }
  void ring_after_fence(const Connection& connection) { connection.peer_bell->ring(); }

  // Stepping the lane that was blocked last is useless until this holds. True if that lane waits for no message.
  bool may_go_on() const {
    // The first line of the data is fetched together with the flag instead of after it.
    __builtin_prefetch(awaited_.data);
    return awaited_.word == nullptr || load_relaxed(awaited_.word) >> awaited_.shift == awaited_.value;
  }
  void awaits(const u64* word, u32 shift, u64 value, const void* data) { awaited_ = {word, shift, value, data}; }
  void awaits_anything() { awaited_.word = nullptr; }

  // After Outcome::failed: the errno of the transfer, and the rank whose memory it concerned.
  int error() const { return error_; }
  int failed_peer() const { return failed_peer_; }

 private:
  static constexpr u32 kOwnerShift = 48;

  struct Filled {
    u32 sink;
    int peer;
  };

  void fill_slots(ReduceCopy& work, u32 filled, u64 bytes) {
    const bool copies = work.operand_count == 1 && !work.scaled;
    SlotStores* timed = nullptr;
    for (u32 i = 0; i < filled; ++i) {
      SlotStores& stores = stores_of(filled_[i].peer);
      const SlotStores::Turn turn = stores.next(copies && timed == nullptr);
      if (turn.streamed && filled_[i].sink < 32) work.streamed |= 1u << filled_[i].sink;
      if (turn.timed) timed = &stores;
    }
    if (timed == nullptr) return move(work);
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    kernels::reduce_copy(work);
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
    timed->took(static_cast<u64>(ns), bytes, work.destination_count);
  }
  void move(const ReduceCopy& work) {
    if (!holds_) return kernels::reduce_copy(work);
    desks_[held_++].work = work;
  }
  // A deque, so that references stay valid.
  SlotStores& stores_of(int peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (stores_.size() <= at) stores_.resize(at + 1);
    return stores_[at];
  }

  u32 streamed(u8* const* sinks, u32 count) const {
    u32 mask = 0;
    if (stream_begin_ == stream_end_) return mask;
    for (u32 i = 0; i < count && i < 32; ++i) {
      const auto at = reinterpret_cast<std::uintptr_t>(sinks[i]);
      if (at >= stream_begin_ && at < stream_end_) mask |= 1u << i;
    }
    return mask;
  }

  bool heavy_sleepers_ = false;
  std::vector<u8*> bases_;
  std::vector<const std::atomic<u32>*> withdrawn_;
  std::uintptr_t stream_begin_ = 0;
  std::uintptr_t stream_end_ = 0;
  Shown may_show_;
  bool has_shown_ = false;
  struct Desk {
    std::vector<device::Source> sources;
    std::vector<u8*> sinks;
    ReduceCopy work;
  };
  std::array<Desk, kMostHeld> desks_;  // for the moves on hold, and for the next move
  std::size_t held_ = 0;
  bool holds_ = false;
  std::vector<u8> bounce_;
  std::vector<Filled> filled_;  // sinks of the next reduce_copy that are slots
  u32 filled_count_ = 0;
  std::deque<SlotStores> stores_;  // by peer
  std::size_t bounce_bytes_ = 0;
  struct Awaited {
    const u64* word = nullptr;
    u32 shift = 0;
    u64 value = 0;
    const void* data = nullptr;
  };
  Awaited awaited_;
  int error_ = 0;
  int failed_peer_ = -1;
};

}  // namespace sccl::kernels
