// Whether the device still runs what it is given. A device on which some kernel went wrong answers every call with an
// error from then on, and nothing that was launched there ends.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "platform/gpu/device.h"
#include "runtime/transport/p2p/device_neighbour.h"

namespace sccl::runtime {

class DeviceLoss {
 public:
  // `own` are the words in which this rank's peers learn of the loss. Both must outlive this.
  DeviceLoss(const gpu::Device& device, NeighbourWords& own) : device_(device), own_(own) {}

  // An event of the device that ask() may use until null is given.
  void watch(void* event);
  // Asks the device, from any thread. Once true, always true.
  bool ask();
  // As far as somebody has asked.
  bool known() const { return status_.load(std::memory_order_acquire) != 0; }  // pairs with ask()
  // What the driver answered, for messages.
  std::string text() const;

 private:
  const gpu::Device& device_;
  NeighbourWords& own_;
  std::atomic<gpu::Status> status_{0};  // what the driver answers; 0: all is well
  std::mutex mutex_;                    // guards event_, also while the driver is asked about it
  void* event_ = nullptr;
};

}  // namespace sccl::runtime
