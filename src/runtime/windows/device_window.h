// Windows on devices: at registration every rank's buffer is mapped into the others' devices.
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
  std::uint32_t number = 0;  // the least that is free on this rank
};

// Collective. Null, with one line that says why, on all ranks when some rank's device does not reach some rank's
// buffer. Throws invalid_argument when the ranks' sizes differ, and as ControlAllGather does.
std::unique_ptr<Window> map_window(const Membership& membership, ControlAllGather& control_all_gather,
                                   const std::atomic<bool>& abort, const WindowOffer& offer);

}  // namespace sccl::runtime
