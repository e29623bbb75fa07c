#include "runtime/choice/tuning/device_tuning_place.h"

#include "base/error.h"

namespace sccl::runtime {

TuningPlace device_tuning_place(const std::string& links, int ranks, const DeviceMembership& devices) {
  const gpu::Device& device = devices.device;
  return {fmt::format("{} ({}), driver {}, {} ranks of each, {} blocks, {}", gpu::name_of(device), device.architecture,
                      device.driver->version, devices.neighbours, devices.blocks,
                      devices.direct ? "in place" : "through slots"),
          links, ranks};
}

}  // namespace sccl::runtime
