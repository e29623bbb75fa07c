// Whether the device still works. After a kernel has failed, the device answers every call with an error, and no
// launched work ends.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "platform/gpu/device.h"
#include "runtime/transport/p2p/device_neighbour.h"

namespace sccl::runtime {

class DeviceLoss {
 public:
  // `own`: the words in which this rank's peers learn of the loss. Both must outlive this object.
  DeviceLoss(const gpu::Device& device, NeighbourWords& own) : device_(device), own_(own) {}

  // ask() may use this event of the device until watch(nullptr).
  void watch(void* event);
  // Asks the device, from any thread. Once true, always true.
  bool ask();
  // Whether an earlier ask() was true.
  bool known() const { return status_.load(std::memory_order_acquire) != 0; }  // pairs with ask()
  // The driver has ended with the program: no kernel went wrong, though none runs any more.
  bool is_end_of_process() const;
  // What the driver answered, for messages.
  std::string text() const;

 private:
  const gpu::Device& device_;
  NeighbourWords& own_;
  std::atomic<gpu::Status> status_{0};  // the driver's answer; 0: the device works
  std::mutex mutex_;                    // guards event_; held also while the driver queries the event
  void* event_ = nullptr;
};

}  // namespace sccl::runtime
