// NVIDIA's devices and NVLinks, from the driver's management library.
#pragma once

#include <optional>
#include <string>

#include "topology/probe/devices.h"

namespace sccl::topology::probe {

// Nothing when the library is missing, lacks a function or finds no driver; `why_not` then holds the reason.
std::optional<Devices> nvml_devices(const std::string& library, std::string& why_not);

}  // namespace sccl::topology::probe
