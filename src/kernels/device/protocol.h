// Sends and receives one message: the protocols that every target can use, written against the target's vocabulary
// (lines.h has a protocol for devices only, kernels/host/messages/inline_messages.h the host's form of `ll`).
//
// A protocol is one type. Interpreter asks it for everything that differs between protocols; no other code compares
// protocols while data moves. Its members are static:
//   kFenced                    the order of payload and flag needs fences; else every word or line has a flag
//   kInPlace                   messages are read and written in their slots; else they are packed and unpacked
//   kLends                     the payload of one slot may serve several messages, where the target has that
//   kByWords                   take_words() and put_words() take the place of whole(), unpack() and pack(): the threads
//                              of a block share the words of all messages of an operation, so that those of several
//                              peers are on their way at a time
//   kFlagShift                 a word of flags holds the flag above this bit
//   longest(connection)        bytes of the longest message
//   word(connection)           the word that tells of the next message
//   sight(connection, seen, signature)
//                              what a load of that word shows. Enough to tell that the peer is in another call
//   whole(connection, to, bytes, signature)
//                              all threads: the whole message that has begun is there; may copy it to `to`
//   has_room(connection, bytes), seen_tail(connection), tail(connection)
//                              whether the next message may be written, by the tail that was read last
//   payload(connection, bytes) of the next message, in place
//   unpack(connection, to, bytes), pack(connection, from, bytes, signature)
//                              all threads: where messages are not in place
//   publish(connection, signature, bytes), consume(connection, bytes)
//                              leader: sends the message; gives the slot of an arrived one back
// What a message costs is in schedule/simulation/cost.h, by which the runtime chooses the protocol of a call.
// OneProtocol binds a type for a whole call (the host); AnyProtocol calls the type of the call in progress (a kernel,
// whose code serves all of them).
//
// Target offers Connection (its type of end, derived from device::Connection); load_polled, store_published,
// load_relaxed, store_relaxed on u64 in memory shared with the peer; the depth of a connection (depth); and the index
// thread() among the threads() that move data together. All threads share the words of `ll` messages; all other
// functions are for the leader only.
//
// Memory order. A flag says that a payload is there; a tail says that a slot is free again. On the host load_polled is
// an acquire and store_published is a release. On a device both are relaxed accesses of system scope (kSignedFlags),
// and the interpreter puts one fence on each side of an operation, whatever the number of peers:
//
//   leader: polls all flags and tails (relaxed)         all threads: move data
//           fence A                                     barrier
//   barrier                                             leader: fence R
//   all threads: move data                                      stores all flags and tails (relaxed)
//
// Why a payload is visible: the sender's threads store the payload, the barrier orders these stores before fence R of
// the sender's leader, and fence R precedes the store of the flag in program order. The receiver's leader reads that
// flag before fence A, and the barrier orders fence A before the loads of all its threads. Two fences synchronize if a
// store after the first fence is observed by a load before the second fence (PTX: release and acquire patterns; C++ and
// LLVM's model of AMD's devices: fence-fence synchronization). Both fences have system scope, so this holds between
// devices and for host memory.
// Why a slot is not overwritten too early: the receiver's loads from the slot come before its barrier and fence R, and
// the tail is stored after fence R. The sender reads that tail before fence A and stores into the slot after fence A.
// One fence serves several flags, because the pattern allows other accesses between the fence and each store.
//
// A device's flag carries the signature in its upper half (kSignedFlags): a relaxed load alone tells that the peer is
// in another call, before anything behind the flag may be read. The lower half counts messages modulo 2^32. The
// previous flag in the same header has a count that differs by kMostDepth, so half of the count is enough.
#pragma once

#include "kernels/device/connection.h"

namespace sccl::device {

// The reach of a fence.
enum class Scope : u8 { none, device, system };

// The flag of the message that follows `position` others.
inline u64 signed_flag(u32 signature, u64 position) {
  return static_cast<u64>(signature) << 32 | static_cast<u32>(position + 1);
}

// What the word of the next message shows: nothing yet, a message of this call, or one of another call.
enum class Sight : u8 { absent, ours, of_another_call };

// Of a word whose upper half is the flag and whose lower half is the signature.
inline Sight sight_of(u64 seen, u64 flag, u32 signature) {
  if (seen >> 32 != flag) return Sight::absent;
  return static_cast<u32>(seen) == signature ? Sight::ours : Sight::of_another_call;
}
// Of a signed flag: the lower half counts messages, the upper half is the signature.
inline Sight sight_of_signed(u64 seen, u64 flag) {
  if (static_cast<u32>(seen) != static_cast<u32>(flag)) return Sight::absent;
  return seen == flag ? Sight::ours : Sight::of_another_call;
}

template <class Target>
struct Slots {
  using Connection = typename Target::Connection;

  static constexpr bool kFenced = true;
  static constexpr bool kInPlace = true;
  static constexpr bool kLends = true;
  static constexpr bool kByWords = false;
  static constexpr u32 kFlagShift = 0;

  static u64 longest(const Connection& connection) { return connection.slot_bytes; }
  static SlotHeader& header(Connection& connection) {
    return connection.ring->headers[connection.position % kMostDepth];
  }
  static u8* payload(Connection& connection, u64 bytes = 0) { return Target::slot(connection, bytes); }

  static u64* word(Connection& connection) { return &header(connection).flag; }
  static u64 flag(const Connection& connection, u32 signature) {
    if constexpr (Target::kSignedFlags) return signed_flag(signature, connection.position);
    return connection.position + 1;
  }

  // `seen` was loaded by load_polled; pairs with publish() of the peer.
  static Sight sight(Connection& connection, u64 seen, u32 signature) {
    if constexpr (Target::kSignedFlags) return sight_of_signed(seen, flag(connection, signature));
    if (seen != connection.position + 1) return Sight::absent;
    return header(connection).signature == signature ? Sight::ours : Sight::of_another_call;
  }
  static constexpr bool whole(Connection&, u8*, u64, u32) { return true; }

  // A slot may be overwritten once the receiver has consumed its message; pairs with consume() of the peer.
  static bool has_room(Connection& connection, u64 bytes = 0) {
    const u32 depth = Target::depth(connection, bytes);
    if (connection.position - connection.seen_tail < depth) return true;
    connection.seen_tail = Target::load_polled(&connection.ring->tail.value);
    return connection.position - connection.seen_tail < depth;
  }

  static u64& seen_tail(Connection& connection) { return connection.seen_tail; }
  static const Tail& tail(const Connection& connection) { return connection.ring->tail; }

  // The peer has consumed all messages; pairs with consume() of the peer.
  static bool drained(Connection& connection) {
    if (connection.seen_tail == connection.position) return true;
    connection.seen_tail = Target::load_polled(&connection.ring->tail.value);
    return connection.seen_tail == connection.position;
  }

  static void publish(Connection& connection, u32 signature, u64 bytes) {
    SlotHeader& slot = header(connection);
    if constexpr (Target::kSignedFlags) {
      Target::tell_length(connection, slot, bytes);
      Target::fill_slot(connection);
    } else {
      slot.signature = signature;
      slot.bytes = bytes;
    }
    Target::store_published(&slot.flag, flag(connection, signature));
    ++connection.position;
  }

  static void consume(Connection& connection, u64 = 0) {
    ++connection.position;
    Target::store_published(&connection.ring->tail.value, connection.position);
  }
};

template <class Target>
struct LowLatency {
  using Connection = typename Target::Connection;

  static constexpr bool kFenced = false;
  static constexpr bool kInPlace = false;
  static constexpr bool kLends = false;
  static constexpr bool kByWords = true;
  static constexpr u32 kFlagShift = 32;

  static constexpr u64 longest(const Connection&) { return kLlPayloadBytes; }
  // Not 0, and another one for each of the next 2^31 messages.
  static u64 flag(const Connection& connection, u32 = 0) {
    return (connection.ll_position & 0x7fffffffu) | 0x80000000u;
  }
  static u64* word(Connection& connection) { return words(connection); }

  static u64* words(Connection& connection) { return connection.ring->ll[connection.ll_position % kLlSlotCount]; }

  static u32 word_count(u64 bytes) { return 1 + static_cast<u32>((bytes + 3) / 4); }

  static Sight sight(Connection& connection, u64 seen, u32 signature) {
    return sight_of(seen, flag(connection), signature);
  }

  // Copies the payload of word `index` to `to`; the first word has none. False: the word is not there, or is of another
  // call. A word may be taken again.
  static bool take_word(Connection& connection, u32 index, u8* to, u64 bytes, u32 signature) {
    const u64 seen = Target::load_relaxed(words(connection) + index);
    if (seen >> kFlagShift != flag(connection)) return false;
    if (index == 0) return static_cast<u32>(seen) == signature;
    const u64 at = (index - 1) * 4ull;
    const u32 word = static_cast<u32>(seen);
    copy_payload(to + at, &word, bytes - at);
    return true;
  }
  static void put_word(Connection& connection, u32 index, const u8* from, u64 bytes, u32 signature) {
    u32 word = signature;
    if (index > 0) {
      word = 0;
      copy_payload(&word, from + (index - 1) * 4ull, bytes - (index - 1) * 4ull);
    }
    Target::store_relaxed(words(connection) + index, flag(connection) << kFlagShift | word);
  }

  static bool has_room(Connection& connection, u64) {
    if (connection.ll_position - connection.ll_seen_tail < kLlSlotCount) return true;
    connection.ll_seen_tail = Target::load_polled(&connection.ring->ll_tail.value);
    return connection.ll_position - connection.ll_seen_tail < kLlSlotCount;
  }
  static u64& seen_tail(Connection& connection) { return connection.ll_seen_tail; }
  static const Tail& tail(const Connection& connection) { return connection.ring->ll_tail; }

  // All threads: the messages of several peers, which are on their way at a time. False: some word is not there, or is
  // of another call.
  static bool take_words(Connection* connections, const Access* operands, u32 operand_count, u64 bytes, u32 signature) {
    const u32 words = word_count(bytes);
    const u32 count = operand_count * words;
    SCCL_ROLLED for (u32 at = Target::thread(); at < count; at += Target::threads()) {
      const u32 i = at / words;
      if (operands[i].via != Via::slot) continue;
      Connection& connection = connections[operands[i].connection];
      u32 polls = 0;
      while (!take_word(connection, at - i * words, Target::bounce(i), bytes, signature))
        if (++polls >= Target::patience()) return false;
    }
    return true;
  }
  // All threads: one message to several peers.
  static void put_words(Connection* connections, const Access* destinations, u32 destination_count, const u8* from,
                        u64 bytes, u32 signature) {
    const u32 words = word_count(bytes);
    const u32 count = destination_count * words;
    SCCL_ROLLED for (u32 at = Target::thread(); at < count; at += Target::threads()) {
      const u32 i = at / words;
      if (destinations[i].via != Via::slot) continue;
      put_word(connections[destinations[i].connection], at - i * words, from, bytes, signature);
    }
  }

  // take_word() has copied the message already.
  static constexpr void unpack(Connection&, u8*, u64) {}

  // Every word has been published by its own flag.
  static void publish(Connection& connection, u32, u64) { ++connection.ll_position; }

  // Pairs with has_room() of the peer: the peer stores into the slot after it sees this tail. Needs no fence: the words
  // were tested, and a barrier follows the tests, so our loads have their values before the tail is stored.
  static void consume(Connection& connection, u64) {
    ++connection.ll_position;
    Target::store_published(&connection.ring->ll_tail.value, connection.ll_position);
  }

 private:
  // At most one word.
  static void copy_payload(void* to, const void* from, u64 left) {
    if (left >= 4 && (reinterpret_cast<u64>(to) | reinterpret_cast<u64>(from)) % 4 == 0)
      *static_cast<u32*>(to) = *static_cast<const u32*>(from);
    else
      Target::copy_word(to, from, left < 4 ? left : 4);
  }
};

}  // namespace sccl::device
