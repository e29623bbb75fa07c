#include "base/settings/libsccl_version.h"

#include <fmt/format.h>

namespace sccl {

std::uint32_t libsccl_version() { return SCCL_VERSION_NUMBER; }

std::string libsccl_version_text(std::uint32_t version) {
  if (version == 0) return "an older libsccl";
  return fmt::format("libsccl {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace sccl
