// What one lane waits for, packed into one word that is stored and loaded whole. Lanes on the host and on devices write
// the word while they wait. The host reads the word to report why a call does not go on.
#pragma once

#include "kernels/device/program.h"

namespace sccl::device {

struct WaitRecord {
  static constexpr u32 kNoSlot = 0xff;  // not a number of any ring: the message goes by words or lines, or by no lane

  u32 lane;       // index in the rank's program; on a device counted through all channels
  u32 operation;  // index in the lane
  int peer;       // the peer whose message, or whose room for a message, is missing
  u32 slot;       // index in the connection with the peer, or kNoSlot

  // Never 0: 0 stands for no wait. Numbers that are too large lose their high bits.
  u64 packed() const {
    return 1ull << 63 | (lane & 0x7fffull) << 48 | (operation & 0xffffull) << 32 | (slot & 0xffull) << 24 |
           (static_cast<u32>(peer) & 0xffffffull);
  }
  static WaitRecord unpacked(u64 word) {
    return {static_cast<u32>(word >> 48 & 0x7fff), static_cast<u32>(word >> 32 & 0xffff),
            static_cast<int>(word & 0xffffff), static_cast<u32>(word >> 24 & 0xff)};
  }
};

}  // namespace sccl::device
