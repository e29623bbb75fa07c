// Whether the links of a communicator's devices keep lines of 128 bytes whole, as ll128 needs (kernels/device/lines.h).
// It is told by what devices and links are, since trying proves nothing: a line that is cut once in a million is
// enough.
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

// Of several the largest explains why there are none.
enum class LineVerdict : std::uint8_t {
  whole,
  not_wanted,  // by the settings
  other_link,  // not NVLink or xGMI, or nobody can tell
  old_device,
  host_memory,  // some pair is staged
};

struct LinePeer {
  gpu::UniqueDeviceId id{};
  std::string busid;
};

// This rank's verdict about its own device and its links to the peers'. Asks a driver, or a management library, only
// where a peer is on another device.
LineVerdict judge_lines(const gpu::Device& device, std::span<const LinePeer> peers);

// "some devices are joined by PCIe ...".
std::string cause(LineVerdict verdict);

}  // namespace sccl::runtime
