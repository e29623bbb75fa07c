#include "base/os/boot_id.h"

#include <array>
#include <cstdio>
#include <cstring>

#include "base/settings/env.h"

namespace sccl {

std::string boot_id() {
  std::FILE* const file = std::fopen("/proc/sys/kernel/random/boot_id", "re");
  if (file == nullptr) return "";
  std::array<char, 64> id{};
  const bool read = std::fgets(id.data(), static_cast<int>(id.size()), file) != nullptr;
  std::fclose(file);
  return read ? std::string(id.data(), std::strcspn(id.data(), "\n")) : "";
}

std::optional<std::string> given_host_id() { return env::text("NCCL_HOSTID"); }

}  // namespace sccl
