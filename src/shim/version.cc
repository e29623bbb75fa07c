#include "shim/version.h"

#include <atomic>
#include <cstdint>

#include "base/settings/log.h"
#include "nccl_shim/nccl.h"

namespace sccl::shim {
namespace {

#define SCCL_TEXT_OF(value) #value
#define SCCL_TEXT(value) SCCL_TEXT_OF(value)
#define SCCL_NCCL_VERSION SCCL_TEXT(NCCL_MAJOR) "." SCCL_TEXT(NCCL_MINOR) "." SCCL_TEXT(NCCL_PATCH)
#define SCCL_FULL_VERSION SCCL_NCCL_VERSION "+libsccl." SCCL_VERSION

// An ELF note: `readelf -n libnccl.so.2` shows which library the file is without loading it.
struct Note {
  std::uint32_t name_bytes;
  std::uint32_t text_bytes;
  std::uint32_t type;
  char name[8];
  char text[sizeof SCCL_FULL_VERSION];
};
[[gnu::used, gnu::section(".note.libsccl"), gnu::aligned(4)]] constexpr Note kNote{
    sizeof "libsccl", sizeof SCCL_FULL_VERSION, 1, "libsccl", SCCL_FULL_VERSION};

constinit std::atomic<bool> told{false};

}  // namespace

void tell_version() {
  // The exchange alone decides which thread comes first; no order is needed.
  if (!told.exchange(true, std::memory_order_relaxed))
    log::write(log::Level::version, fmt::format("NCCL version {}", kNote.text));
}

}  // namespace sccl::shim
