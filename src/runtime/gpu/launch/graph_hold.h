// Keeps the resources of captured kernels alive as long as their graphs: graphs may outlive the communicator.
#pragma once

#include "platform/gpu/device.h"
#include "runtime/gpu/resources/device_resources.h"

namespace sccl::runtime {

class GraphHold {
 public:
  // `resources` must outlive this object.
  explicit GraphHold(const HeldResources& resources) : resources_(resources) {}

  // Called when a call was captured. Throws device_error if the graph cannot hold the resources.
  void keep(const gpu::CaptureState& capture);
  // Whether some graph holds the resources; it may replay its kernels at any time.
  bool holds() const { return kept_for_ != 0; }

 private:
  const HeldResources& resources_;
  unsigned long long kept_for_ = 0;  // the last capture whose graph holds the resources; 0: none
};

}  // namespace sccl::runtime
