// Whatever a program passes as its ncclConfig_t: it is refused as an invalid argument, or read as a configuration whose
// every field is undefined or valid. Nothing behind the struct's own size is read.
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "shim/config.h"

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

bool within(int value, int low, int high) { return value == NCCL_CONFIG_UNDEF_INT || (value >= low && value <= high); }

void check(const ncclConfig_t& config) {
  require(config.size == sizeof config, "size");
  require(within(config.blocking, 0, 1), "blocking");
  require(within(config.cgaClusterSize, 0, INT_MAX), "cgaClusterSize");
  require(within(config.minCTAs, 1, INT_MAX) && within(config.maxCTAs, 1, INT_MAX), "CTAs");
  require(config.minCTAs == NCCL_CONFIG_UNDEF_INT || config.maxCTAs == NCCL_CONFIG_UNDEF_INT ||
              config.minCTAs <= config.maxCTAs,
          "the order of CTAs");
  require(within(config.splitShare, 0, 1) && within(config.shrinkShare, 0, 1), "sharing");
  require(within(config.nChannelsPerNetPeer, 1, 64), "nChannelsPerNetPeer");
  require(within(config.graphUsageMode, 0, 2), "graphUsageMode");
  require(config.version >= 21400 || config.blocking == NCCL_CONFIG_UNDEF_INT, "a field newer than its struct");
  require(config.version >= 22700 || config.commName == nullptr, "a name newer than its struct");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHeaderBytes = offsetof(ncclConfig_t, blocking);
  if (size < kHeaderBytes) return 0;
  // As long as the struct claims to be, and not a byte longer: the sanitizer sees reads behind it.
  ncclConfig_t header{};
  std::memcpy(&header, data, kHeaderBytes);
  header.size %= 128;
  const std::size_t claimed = header.size;
  const std::size_t held = std::max(claimed, kHeaderBytes);
  const std::unique_ptr<std::uint8_t[]> given(new std::uint8_t[held]());
  std::memcpy(given.get(), data, std::min(size, held));
  std::memcpy(given.get(), &claimed, sizeof claimed);
  if (size % 4 != 0) {  // mostly with the right magic word
    const unsigned magic = NCCL_API_MAGIC;
    std::memcpy(given.get() + offsetof(ncclConfig_t, magic), &magic, sizeof magic);
  }
  try {
    check(sccl::shim::read_config(reinterpret_cast<const ncclConfig_t*>(given.get())));
  } catch (const sccl::Error& error) {
    require(error.code() == sccl::ErrorCode::invalid_argument, "another error");
  }
  return 0;
}
