// What one lane waits for, in one word that is stored and loaded whole: lanes write it while they wait, on the host and
// on devices, and the host reads it for whoever asks why a call does not go on.
#pragma once

#include "kernels/device/program.h"

namespace sccl::device {

struct WaitRecord {
  u32 lane;       // of the rank's program; on devices counted through all channels
  u32 operation;  // of the lane
  int peer;       // whose message, or whose room for a message, is missing
  u32 slot;       // of the connection with it

  // Never 0, which stands for no wait. Numbers that are too large lose their high bits.
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
