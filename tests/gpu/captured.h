// A graph of the fake driver, captured from what a test calls.
#pragma once

#include <string>

#include "gpu/device_world.h"

namespace gpu_test {

struct Captured {
  void* graph = nullptr;
  void* executable = nullptr;

  template <typename Calls>
  std::string capture(const OnDevice& device, Calls&& calls) {
    cuStreamBeginCapture_v2(device.stream(), 1);
    std::string wrong = calls();
    cuStreamEndCapture(device.stream(), &graph);
    cuGraphInstantiateWithFlags(&executable, graph, 0);
    return wrong;
  }
  void destroy() {
    cuGraphExecDestroy(executable);
    cuGraphDestroy(graph);
  }
};

}  // namespace gpu_test
