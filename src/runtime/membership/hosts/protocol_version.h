// What a rank tells first of itself, in a form that all versions of this library understand: which version of the
// protocol it speaks, and where it runs. Builds of one release may differ in the protocol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/bootstrap/meeting/bytes.h"

namespace sccl::runtime {

struct VersionHead {
  static constexpr std::size_t kHostNameBytes = 64;

  std::uint32_t version = 0;
  std::array<char, kHostNameBytes> host_name{};
};

// `records` of all ranks begin with a head. Throws the same error at all ranks if they speak different versions.
void check_versions(std::span<const Bytes> records);

}  // namespace sccl::runtime
