// Windows on devices: registration maps every rank's buffer into the other ranks' devices.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/control/control_all_gather.h"
#include "runtime/windows/one_sided.h"

namespace sccl::runtime {

struct WindowOffer {
  void* base = nullptr;
  std::size_t bytes = 0;
  WindowUse use = WindowUse::one_sided;
  std::uint32_t number = 0;  // the least free number on this rank
};

// Collective. If any rank's device does not reach any rank's buffer, all ranks return null, and one line of the log
// says why. Throws invalid_argument when the ranks' sizes differ, and the errors of ControlAllGather.
std::unique_ptr<Window> map_window(const Membership& membership, ControlAllGather& control_all_gather,
                                   const std::atomic<bool>& abort, const WindowOffer& offer);

}  // namespace sccl::runtime
