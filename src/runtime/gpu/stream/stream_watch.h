// What the host sees of calls that streams order, and how it ends them when what they wait for will not come.
//
// A stream that waits cannot be asked to give up; the host sets the flags it waits for, one after another, until the
// stream has nothing left. What it copies then is not what the call was to bring, here and at whoever receives it from
// here: the call is reported as failed, and before any flag is set, no rank may take such data for good. So:
//
//   1. This rank says that it is stopping, beside its fault or its presence (shared_state.h).
//   2. It waits until every other rank is stopping too, has gone, or has no call under way. A rank with a call under
//   way
//      sees the fault at its next look, within 10 ms, and stops; a rank without one looks before it begins its next.
//   3. It sets its own flags until its stream is at rest.
//   4. It takes back what its stream may have told the others meanwhile, so that no later call of theirs, a replayed
//   graph
//      say, finds a message from here. Signals, which are counted, are not sent any more after the first step.
//
// Only then does the caller learn of the failure, and may free the buffers into which the stream copied
// (DeviceWatch::settle_streams).
//
// A rank that neither stops nor ends its calls for a second (stopped by a debugger, say) is not waited for longer.
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

  // A call is under way, or a graph's.
  bool busy() const { return busy(path_.rank); }
  // Changes whenever a stream goes on.
  std::uint64_t progress() const;
  // A peer that lives has a call under way.
  bool others_busy() const;
  // Whom the stream waits for, -1: nobody.
  Rank awaited() const;
  // It waits for a signal, not for a message of a call.
  bool awaits_signal() const;
  // A rank whose message is there but belongs to another call, -1: none. For calls that do not go on.
  Rank mismatch() const;
  // A rank that is stopping, -1: none.
  Rank stopping_peer() const;

  // The call of this number is about to be enqueued. False, and nothing is noted, when this rank or a peer is stopping.
  bool begin(std::uint32_t sequence);
  // It was not enqueued, or not as a whole: then only its stage tells that it is under way.
  void take_back(std::uint32_t sequence);

  // This rank's calls will not end as they should.
  void stop();
  // A turn at steps 2 to 4; false when there is nothing to do: until a graph is replayed, for instance.
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
