// What ends a kernel that spins: words that the host and peers' kernels write, and words that tell the host why the
// kernel ended.
#pragma once

#include "kernels/gpu/arguments.h"
#include "kernels/gpu/target.h"

namespace sccl::device::gpu {

// Only the first reason counts.
inline void tell_host(HostWords* host, StopReason reason, u64 peer) {
  if (load_relaxed_system(&host->stopped) != 0) return;
  store_relaxed_system(&host->peer, peer);
  store_release_system(&host->stopped, static_cast<u64>(reason));
}

// Stops the kernels of all ranks. Only the first reason counts.
template <class Arguments>
inline void stop_all_ranks(const Arguments& arguments, StopReason reason, int peer) {
  tell_host(arguments.host, reason, static_cast<u64>(peer));
  SCCL_ROLLED for (u32 rank = 0; rank < arguments.ranks; ++rank) {
    Control* const control = arguments.peer_controls[rank];
    if (control == nullptr || load_relaxed_system(&control->stop) != 0) continue;
    store_relaxed_system(&control->stop_peer, arguments.rank);
    store_release_system(&control->stop, static_cast<u64>(rank == arguments.rank ? reason : StopReason::peer));
  }
}

// Used by the leader of a block. The arguments (of any kernel) are passed by reference at each call, so that they take
// no registers.
class StopSigns {
 public:
  void begin() {
    polls_ = 0;
    question_ = 0;
  }
  // Whether the kernel must end. Called after each poll that was in vain; most calls read nothing. `awaited`: a rank,
  // or -1. `state`: the state of the lane that waits; null where no lane does.
  template <class Arguments>
  bool look(const Arguments& arguments, int awaited, const LaneState* state = nullptr, u32 lane = 0) {
    if (++polls_ % kPollsPerLook != 0) return false;
    const u64 reason = load_relaxed_system(&arguments.control->stop);
    if (reason != 0) {
      fence_system();  // pairs with the release in stop_all_ranks(): stop_peer was stored before
      tell_host(arguments.host, static_cast<StopReason>(reason), load_relaxed_system(&arguments.control->stop_peer));
      return true;
    }
    if (polls_ % kPollsPerHostLook != 0) return false;
    // The polls since the last look came after the question was read there.
    store_relaxed_system(&arguments.host->awaited, Wait{awaited, question_}.packed());
    question_ = static_cast<u32>(load_relaxed_system(&arguments.host->question));
    if (state != nullptr && awaited >= 0 && lane < kMostWaitRecords)
      store_relaxed_system(&arguments.host->waits[lane],
                           WaitRecord{lane, state->op, awaited, state->blocked_on_slot}.packed());
    if (load_relaxed_system(&arguments.host->stop) == 0) return false;
    store_relaxed_system(&arguments.control->stop_peer, arguments.rank);
    store_release_system(&arguments.control->stop, static_cast<u64>(StopReason::host));
    tell_host(arguments.host, StopReason::host, arguments.rank);
    return true;
  }

 private:
  // Set by begin(): a block's shared memory is not initialised.
  u32 polls_;
  u32 question_;  // as the last look at the host's words read it
};

// Kernels of a rank run one after another, and these words tell the host which one. One thread of a launch calls this.
// `count`: of the kernels, this one included.
inline void tell_begin(HostWords* host, u64 count) { store_relaxed_system(&host->began, count); }
inline void tell_end(HostWords* host, u64 sequence, u64 count) {
  // The host reads either word, and then uses again what the kernel has read and written.
  fence_system();
  if (sequence != 0) store_word_system(&host->finished_sequence, sequence);
  store_word_system(&host->finished, count);
}

}  // namespace sccl::device::gpu
