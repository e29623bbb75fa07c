// Keeps what captured kernels use alive for as long as their graphs live: graphs may outlive the communicator.
#pragma once

#include "platform/gpu/device.h"
#include "runtime/gpu/resources/device_resources.h"

namespace sccl::runtime {

class GraphHold {
 public:
  // `resources` must outlive it.
  explicit GraphHold(const HeldResources& resources) : resources_(resources) {}

  // A call was captured. Throws device_error where the graph cannot hold the resources.
  void keep(const gpu::CaptureState& capture);
  // Some graph holds them, and may replay its kernels at any time.
  bool holds() const { return kept_for_ != 0; }

 private:
  const HeldResources& resources_;
  unsigned long long kept_for_ = 0;  // the last capture whose graph holds the resources; 0: none
};

}  // namespace sccl::runtime
