// Sending and receiving one message: the protocols of every target, written against its vocabulary (lines.h has one
// that only devices can speak).
//
// Target offers Connection, its kind of end (a device::Connection with what it adds), load_polled, store_published,
// load_relaxed, store_relaxed on u64 in memory shared with the peer, how deep a connection is (depth), and its place
// thread() among the threads() that move data together. Words of `ll` messages are shared out among them; all other
// functions are the leader's.
//
// Memory order. A flag says that a payload is there, a tail that a slot is free again. On the host load_polled is an
// acquire and store_published a release. On a device both are relaxed accesses of system scope (kFencesOnce), and the
// interpreter puts one fence on each side of an operation, however many peers the operation has:
//
//   leader: polls all flags and tails (relaxed)         all threads: move data
//           fence A                                     barrier
//   barrier                                             leader: fence R
//   all threads: move data                                      stores all flags and tails (relaxed)
//
// Why a payload is visible: the sender's threads store it, the barrier orders these stores before fence R of the
// sender's leader, and fence R is before the flag in program order. The receiver's leader reads the flag's value before
// fence A, and the barrier orders fence A before the loads of all its threads. A fence, a store that another thread's
// load observes, and that thread's later fence synchronize (PTX: release and acquire patterns; C++ and LLVM's model of
// AMD's devices: fence-fence synchronization); both fences have system scope, so it holds between devices and for host
// memory. Why a slot is not overwritten too early: the receiver's loads from it are before its barrier and fence R, the
// tail is stored after them; the sender reads that tail before fence A and stores into the slot after it. One fence
// serves several flags, because the pattern asks for nothing between the fence and each of the stores.
//
// A device's flag carries the signature in its upper half (kSignedFlags): a relaxed load alone tells that the peer is
// in another call, before anything may be read behind the flag. The lower half counts messages modulo 2^32; the slot
// held a count that differs by kMostDepth, so that half of the count is enough.
#pragma once

#include "kernels/device/connection.h"

namespace sccl::device {

// How far a fence reaches.
enum class Scope : u8 { none, device, system };

// Of the message after `position` others.
inline u64 signed_flag(u32 signature, u64 position) {
  return static_cast<u64>(signature) << 32 | static_cast<u32>(position + 1);
}

template <class Target>
struct Slots {
  using Connection = typename Target::Connection;

  static SlotHeader& header(Connection& connection) {
    return connection.ring->headers[connection.position % kMostDepth];
  }
  static u8* payload(Connection& connection) {
    return connection.payload + (connection.position & (Target::depth(connection) - 1)) * connection.slot_bytes;
  }

  static u64* flag_word(Connection& connection) { return &header(connection).flag; }
  static u64 flag(const Connection& connection, u32 signature) {
    if constexpr (Target::kSignedFlags) return signed_flag(signature, connection.position);
    return connection.position + 1;
  }

  // Pairs with publish() of the peer.
  static bool arrived(Connection& connection) {
    return Target::load_polled(flag_word(connection)) == connection.position + 1;
  }

  // The slot may be overwritten once the receiver consumed what it held; pairs with consume() of the peer.
  static bool has_room(Connection& connection) {
    if (connection.position - connection.seen_tail < Target::depth(connection)) return true;
    connection.seen_tail = Target::load_polled(&connection.ring->tail.value);
    return connection.position - connection.seen_tail < Target::depth(connection);
  }

  // Everything sent has been consumed; pairs with consume() of the peer.
  static bool drained(Connection& connection) {
    if (connection.seen_tail == connection.position) return true;
    connection.seen_tail = Target::load_polled(&connection.ring->tail.value);
    return connection.seen_tail == connection.position;
  }

  static void publish(Connection& connection, u32 signature, u64 bytes) {
    SlotHeader& slot = header(connection);
    if constexpr (!Target::kSignedFlags) {
      slot.signature = signature;
      slot.bytes = bytes;
    }
    Target::store_published(&slot.flag, flag(connection, signature));
    ++connection.position;
  }

  static void consume(Connection& connection) {
    ++connection.position;
    Target::store_published(&connection.ring->tail.value, connection.position);
  }
};

template <class Target>
struct LowLatency {
  using Connection = typename Target::Connection;

  static constexpr bool kInPlace = false;  // words are unpacked and packed
  static constexpr u32 kFlagShift = 32;

  static u64 flag(const Connection& connection) { return connection.ll_position % 0xfffffffeull + 1; }
  static u64* word(Connection& connection) { return words(connection); }
  static u8* payload(Connection&, u64) { return nullptr; }

  static u64* words(Connection& connection) { return connection.ring->ll[connection.ll_position % kLlSlotCount]; }

  static u64 word_count(u64 bytes) { return 1 + (bytes + 3) / 4; }

  static bool arrived(Connection& connection, u64 bytes) {
    const u64 expected = flag(connection);
    u64* slot = words(connection);
    const u64 count = word_count(bytes);
    SCCL_ROLLED for (u64 i = Target::thread(); i < count;
                     i += Target::threads()) if (Target::load_relaxed(&slot[i]) >> kFlagShift != expected) return false;
    return true;
  }

  // Only the first word: enough to tell that the peer is in another call.
  static bool begun(Connection& connection) {
    return Target::load_relaxed(&words(connection)[0]) >> kFlagShift == flag(connection);
  }
  static u32 signature(Connection& connection) { return static_cast<u32>(Target::load_relaxed(&words(connection)[0])); }

  static bool has_room(Connection& connection, u64) {
    if (connection.ll_position - connection.ll_seen_tail < kLlSlotCount) return true;
    connection.ll_seen_tail = Target::load_polled(&connection.ring->ll_tail.value);
    return connection.ll_position - connection.ll_seen_tail < kLlSlotCount;
  }

  static void unpack(Connection& connection, u8* to, u64 bytes) {
    const u64* slot = words(connection) + 1;
    SCCL_ROLLED for (u64 at = Target::thread() * 4ull; at < bytes; at += Target::threads() * 4ull) {
      const u32 word = static_cast<u32>(Target::load_relaxed(&slot[at / 4]));
      Target::copy_word(to + at, &word, bytes - at < 4 ? bytes - at : 4);
    }
  }

  static void pack(Connection& connection, const u8* from, u64 bytes, u32 signature) {
    const u64 flagged = flag(connection) << kFlagShift;
    u64* slot = words(connection);
    if (Target::leads()) Target::store_relaxed(slot, flagged | signature);
    ++slot;
    SCCL_ROLLED for (u64 at = Target::thread() * 4ull; at < bytes; at += Target::threads() * 4ull) {
      u32 word = 0;
      Target::copy_word(&word, from + at, bytes - at < 4 ? bytes - at : 4);
      Target::store_relaxed(&slot[at / 4], flagged | word);
    }
  }

  static void sent(Connection& connection, u64, u32) { ++connection.ll_position; }

  // Pairs with has_room() of the peer: its stores into the slot come after this, which comes after our loads from it.
  static void consume(Connection& connection, u64) {
    ++connection.ll_position;
    Target::store_published(&connection.ring->ll_tail.value, connection.ll_position);
  }
};

}  // namespace sccl::device
