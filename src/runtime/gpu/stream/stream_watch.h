// What the host sees of calls that streams order, and how the host ends them when their messages will not come.
//
// A stream cannot be told to stop waiting. Instead the host sets the flags for which the stream waits, one after
// another, until the stream has nothing left to do. The stream then copies wrong data, here and to the ranks that
// receive from here. So the call is reported as failed, and before any flag is set, every rank must know that the data
// is wrong:
//
//   1. This rank says that it is stopping, beside its fault or its presence (control/state/shared_state.h).
//   2. It waits until every other rank is stopping too, is gone, or has no call in flight. A rank with a call in flight
//      sees the fault at its next look, within 10 ms, and stops. A rank without one looks before it begins its next.
//   3. It sets its own flags until its stream is at rest.
//   4. It takes back the flags that its stream may have set at other ranks meanwhile. Otherwise a later call there, of
//   a
//      replayed graph for example, would find a message from here. Signals are counted, so they cannot be taken back:
//      none is sent after step 1.
//
// Only then does the caller learn of the failure. It may free the buffers into which the stream copied
// (DeviceWatch::settle_streams).
//
// Step 2 ends after a second at the latest: a rank may be stopped by a debugger.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <type_traits>

#include "runtime/membership/membership.h"
#include "runtime/transport/stream/stream_path.h"

namespace sccl::runtime {

class StreamWatch {
 public:
  StreamWatch(const Membership& membership, StreamPath& path) : membership_(membership), path_(path) {}

  // A call of this rank is in flight, perhaps one of a replayed graph.
  bool busy() const { return busy(path_.rank); }
  // A number that changes whenever the stream goes on.
  std::uint64_t progress() const;
  // The number of the last call of this rank that has ended, but for graphs' calls; its low half.
  std::uint32_t finished() const { return load(path_.progress().finished); }
  // A peer that has not ended has a call in flight.
  bool others_busy() const;
  // The rank for which the stream waits; -1: none.
  Rank awaited() const;
  // The stream waits for a signal, not for a message of a call.
  bool awaits_signal() const;
  // A rank whose message has arrived and belongs to another call; -1: none. For calls that do not go on.
  Rank mismatch() const;
  // A rank that is stopping; -1: none.
  Rank stopping_peer() const;

  // Call it before enqueueing the call of this number. False, and nothing is noted, if this rank or a peer is stopping.
  bool begin(std::uint32_t sequence);
  // That call was not enqueued, or only a part of it: then its stage alone tells that it is in flight.
  void take_back(std::uint32_t sequence);

  // Step 1.
  void stop();
  // A turn at steps 2 to 4. False when there is nothing to do now; a replayed graph may change that.
  bool release();

 private:
  template <typename Word>
  static Word load(const Word& word) {
    return __atomic_load_n(&word, __ATOMIC_SEQ_CST);
  }
  template <typename Word>
  static void store(Word& word, std::type_identity_t<Word> value) {
    __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
  }
  bool busy(Rank rank) const;
  std::optional<StreamWait> wait() const;
  bool may_take_data(Rank peer) const;

  const Membership& membership_;
  StreamPath& path_;
  std::uint32_t launched_before_ = 0;
  std::optional<std::chrono::steady_clock::time_point> stopped_;
  bool peers_are_safe_ = false;
};

}  // namespace sccl::runtime
