// Whether the links between a communicator's devices keep lines of 128 bytes whole, as ll128 needs
// (kernels/device/lines.h). The answer depends on the models of devices and links. A trial proves nothing: one cut line
// in a million is an error.
//
//   NVIDIA   compute capability 7.0 and later, within a device and over NVLink
//   AMD      gfx90a (MI200) and gfx942 (MI300), within a device and over xGMI; never run
//   never    over PCIe, whose packets may be shorter than a line, nor through host memory
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "platform/gpu/device.h"

namespace sccl::runtime {

// If several apply, the largest one is reported.
enum class LineVerdict : std::uint8_t {
  whole,
  not_wanted,  // by the settings
  other_link,  // not NVLink or xGMI, or unknown
  old_device,
  host_memory,  // some pair communicates through host memory
};

struct LinePeer {
  gpu::UniqueDeviceId id{};
  std::string busid;
};

// This rank's verdict about its own device and its links to the peers. Calls a driver or a management library only if
// some peer is on another device.
LineVerdict judge_lines(const gpu::Device& device, std::span<const LinePeer> peers);

// "some devices are joined by PCIe ...".
std::string cause(LineVerdict verdict);

}  // namespace sccl::runtime
