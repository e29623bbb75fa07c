// A program was compiled against the struct of some version: `size` is its length, `version` tells which fields it
// knew. If two versions have the same size, the later version's new field was padding in the earlier one and may hold
// any bytes.
#include "shim/config.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/settings/env.h"

namespace sccl::shim {
namespace {

constexpr int kUndefined = NCCL_CONFIG_UNDEF_INT;

constexpr int kNvlsHostFlags = ncclNvlsHostModeDisableTransport | ncclNvlsHostModeDisableSymmetricMultimem;

constexpr unsigned version_code(unsigned minor, unsigned patch = 0) { return 20000 + minor * 100 + patch; }

struct IntField {
  int ncclConfig_t::*field;
  const char* name;
  unsigned since;
  int low;
  int high;
};

constexpr IntField kIntFields[] = {
    {&ncclConfig_t::blocking, "blocking", version_code(14), 0, 1},
    {&ncclConfig_t::cgaClusterSize, "cgaClusterSize", version_code(17), 0, INT_MAX},
    {&ncclConfig_t::minCTAs, "minCTAs", version_code(17), 1, INT_MAX},
    {&ncclConfig_t::maxCTAs, "maxCTAs", version_code(17), 1, INT_MAX},
    {&ncclConfig_t::splitShare, "splitShare", version_code(18), 0, 1},
    {&ncclConfig_t::trafficClass, "trafficClass", version_code(26), INT_MIN, INT_MAX},
    {&ncclConfig_t::collnetEnable, "collnetEnable", version_code(27), 0, 1},
    {&ncclConfig_t::CTAPolicy, "CTAPolicy", version_code(27), 0, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO},
    {&ncclConfig_t::shrinkShare, "shrinkShare", version_code(27), 0, 1},
    {&ncclConfig_t::nvlsCTAs, "nvlsCTAs", version_code(27), 1, INT_MAX},
    {&ncclConfig_t::nChannelsPerNetPeer, "nChannelsPerNetPeer", version_code(28), 1, 64},
    {&ncclConfig_t::nvlinkCentricSched, "nvlinkCentricSched", version_code(28), 0, 1},
    {&ncclConfig_t::graphUsageMode, "graphUsageMode", version_code(29), 0, 2},
    {&ncclConfig_t::numRmaCtx, "numRmaCtx", version_code(29), 1, INT_MAX},
    {&ncclConfig_t::maxP2pPeers, "maxP2pPeers", version_code(30), INT_MIN, INT_MAX},
    {&ncclConfig_t::graphStreamOrdering, "graphStreamOrdering", version_code(30, 5), 0, 1},
    {&ncclConfig_t::launchOrderImplicit, "launchOrderImplicit", version_code(31), 0, 1},
    {&ncclConfig_t::numRmaSig, "numRmaSig", version_code(31), 1, INT_MAX},
    {&ncclConfig_t::rmaEagerInit, "rmaEagerInit", version_code(31), 0, 1},
    {&ncclConfig_t::hostCftMode, "hostCftMode", version_code(31), ncclHostCftEnable, ncclHostCftFallback},
    {&ncclConfig_t::nvlsHostMode, "nvlsHostMode", version_code(32), 0, INT_MAX},
};

void check_field(const ncclConfig_t& config, const IntField& field) {
  const int value = config.*field.field;
  if (value == kUndefined) return;
  if (value < field.low || value > field.high)
    fail(ErrorCode::invalid_argument, "config.{} is {}: give a value of {}..{}, or leave it undefined", field.name,
         value, field.low, field.high);
}

}  // namespace

ncclConfig_t read_config(const ncclConfig_t* given) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (given == nullptr) return config;
  constexpr std::size_t kHeaderBytes = offsetof(ncclConfig_t, blocking);
  if (given->magic != NCCL_API_MAGIC || given->size < kHeaderBytes)
    fail(ErrorCode::invalid_argument,
         "the ncclConfig_t has size {} and magic {:#x}: initialise it with NCCL_CONFIG_INITIALIZER", given->size,
         given->magic);
  const unsigned version = given->version;
  std::memcpy(&config, given, std::min(given->size, sizeof config));
  config.size = sizeof config;
  for (const IntField& field : kIntFields)
    if (version < field.since) config.*field.field = kUndefined;
  if (version < version_code(17)) config.netName = NCCL_CONFIG_UNDEF_PTR;
  if (version < version_code(27)) config.commName = NCCL_CONFIG_UNDEF_PTR;
  for (const IntField& field : kIntFields) check_field(config, field);
  if (config.nvlsHostMode != kUndefined && config.nvlsHostMode != ncclNvlsHostModeDisable &&
      config.nvlsHostMode > kNvlsHostFlags)
    fail(ErrorCode::invalid_argument, "config.nvlsHostMode is {:#x}: give flags of {:#x}, or ncclNvlsHostModeDisable",
         config.nvlsHostMode, kNvlsHostFlags);
  if (config.minCTAs != kUndefined && config.maxCTAs != kUndefined && config.minCTAs > config.maxCTAs)
    fail(ErrorCode::invalid_argument, "config.minCTAs {} exceeds config.maxCTAs {}: exchange them", config.minCTAs,
         config.maxCTAs);
  return config;
}

bool is_blocking(const ncclConfig_t& read) { return env::flag("NCCL_COMM_BLOCKING", read.blocking != 0); }

// A longer structure of a newer NCCL may have anything in these places, hence the magic.
std::int64_t timeout_ms(const ncclConfig_t* given) {
  if (given == nullptr || given->magic != NCCL_API_MAGIC || given->size < sizeof(scclConfig_t)) return -1;
  scclConfig_t config;
  std::memcpy(&config, given, sizeof config);
  if (config.scclMagic != SCCL_CONFIG_MAGIC || config.timeoutMs == kUndefined) return -1;
  if (config.timeoutMs < 0)
    fail(ErrorCode::invalid_argument, "config.timeoutMs is {}: give milliseconds, 0 for none", config.timeoutMs);
  return config.timeoutMs;
}

runtime::BlockWishes block_wishes(const ncclConfig_t& read) {
  const auto given = [](int value) { return value == kUndefined ? 0 : value; };
  return {given(read.minCTAs), given(read.maxCTAs), given(read.CTAPolicy)};
}

}  // namespace sccl::shim
