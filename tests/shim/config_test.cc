// Configurations of every NCCL version, functions that are not served, and stale handles.
#include "shim/config.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/error.h"
#include "nccl_shim/nccl.h"

using namespace sccl;

namespace {

struct History {
  unsigned version;
  std::size_t size;
};

// The sizes of ncclConfig_t in the headers of ten generations.
constexpr History kHistory[] = {{21400, 24}, {21700, 40}, {21800, 48}, {22600, 48},  {22700, 72},
                                {22800, 80}, {22900, 88}, {23007, 96}, {23102, 112}, {23203, 120}};

// As a program compiled against `history` passes it: unset fields undefined, everything beyond them garbage.
ncclConfig_t config_of(const History& history) {
  ncclConfig_t full = NCCL_CONFIG_INITIALIZER;
  full.size = history.size;
  full.version = history.version;
  ncclConfig_t passed;
  std::memset(&passed, 0x5a, sizeof passed);
  std::memcpy(&passed, &full, history.size);
  return passed;
}

}  // namespace

TEST_CASE("configurations of every version are read, whatever lies behind them") {
  for (const History& history : kHistory) {
    INFO(history.version);
    ncclConfig_t given = config_of(history);
    given.blocking = 0;
    const ncclConfig_t read = shim::read_config(&given);
    CHECK(read.blocking == 0);
    CHECK(read.size == sizeof read);
    if (history.version < 22700) CHECK(read.commName == nullptr);
    if (history.version < 22800) CHECK(read.nChannelsPerNetPeer == NCCL_CONFIG_UNDEF_INT);
    if (history.version < 22900) CHECK(read.graphUsageMode == NCCL_CONFIG_UNDEF_INT);
    if (history.version < 23000) CHECK(read.maxP2pPeers == NCCL_CONFIG_UNDEF_INT);
    if (history.version < 23100) CHECK(read.launchOrderImplicit == NCCL_CONFIG_UNDEF_INT);
    if (history.version < 23200) CHECK(read.nvlsHostMode == NCCL_CONFIG_UNDEF_INT);
  }
}

TEST_CASE("padding that later became a field is not read as one") {
  ncclConfig_t given = config_of({21800, 48});
  given.trafficClass = 12345;
  CHECK(shim::read_config(&given).trafficClass == NCCL_CONFIG_UNDEF_INT);
  given.version = 22501;
  CHECK(shim::read_config(&given).trafficClass == NCCL_CONFIG_UNDEF_INT);
  given.version = 22602;
  CHECK(shim::read_config(&given).trafficClass == 12345);
}

TEST_CASE("a configuration of any size is read or refused, with garbage where its fields end") {
  for (const History& history : kHistory)
    for (std::size_t size = 0; size <= sizeof(ncclConfig_t); ++size) {
      CAPTURE(history.version, size);
      ncclConfig_t given = config_of({history.version, std::max(size, offsetof(ncclConfig_t, blocking))});
      given.size = size;
      if (size < offsetof(ncclConfig_t, blocking))
        CHECK_THROWS_AS(shim::read_config(&given), Error);
      else if (size % 8 == 0)
        CHECK(shim::read_config(&given).size == sizeof given);
      else  // a field that is cut off is garbage in its rest: read or named, never more
        try {
          shim::read_config(&given);
        } catch (const Error& error) {
          CHECK(error.code() == ErrorCode::invalid_argument);
        }
    }
}

TEST_CASE("a longer configuration of a newer program is accepted") {
  struct {
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    int newer[16] = {1, 2, 3};
  } given;
  given.known.size = sizeof given;
  given.known.version = 29900;
  given.known.minCTAs = 4;
  CHECK(shim::read_config(&given.known).minCTAs == 4);
}

TEST_CASE("no configuration is all defaults") { CHECK(shim::read_config(nullptr).blocking == NCCL_CONFIG_UNDEF_INT); }

TEST_CASE("invalid fields are refused by name") {
  const auto refusal = [](auto&& change) -> std::string {
    ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
    change(given);
    try {
      shim::read_config(&given);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      return error.what();
    }
    return "";
  };
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.magic = 1; }), Catch::Contains("magic"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.size = 3; }), Catch::Contains("size"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.blocking = 2; }), Catch::Contains("blocking"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.cgaClusterSize = -1; }), Catch::Contains("cgaClusterSize"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.minCTAs = 0; }), Catch::Contains("minCTAs"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.minCTAs = 9, c.maxCTAs = 8; }), Catch::Contains("exceeds"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.splitShare = 2; }), Catch::Contains("splitShare"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.CTAPolicy = 4; }), Catch::Contains("CTAPolicy"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.nvlsCTAs = 0; }), Catch::Contains("nvlsCTAs"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.nChannelsPerNetPeer = 65; }), Catch::Contains("nChannelsPerNetPeer"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.graphUsageMode = 3; }), Catch::Contains("graphUsageMode"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.numRmaCtx = 0; }), Catch::Contains("numRmaCtx"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.graphStreamOrdering = 2; }), Catch::Contains("graphStreamOrdering"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.launchOrderImplicit = 2; }), Catch::Contains("launchOrderImplicit"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.numRmaSig = 0; }), Catch::Contains("numRmaSig"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.rmaEagerInit = -1; }), Catch::Contains("rmaEagerInit"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.hostCftMode = 4; }), Catch::Contains("hostCftMode"));
  CHECK_THAT(refusal([](ncclConfig_t& c) { c.nvlsHostMode = 4; }), Catch::Contains("nvlsHostMode"));
}

TEST_CASE("calls on no communicator are refused by name") {
  ncclComm_t child = nullptr;
  CHECK(ncclCommSplit(nullptr, 0, 0, &child, nullptr) == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains("ncclCommSplit"));
  ncclWindow_t window = nullptr;
  CHECK(ncclCommWindowRegister(nullptr, nullptr, 0, &window, 0) == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains("ncclCommWindowRegister"));
  CHECK(ncclCommRevoke(nullptr, NCCL_REVOKE_DEFAULT) == ncclSuccess);
}

TEST_CASE("a simulated group is estimated, closed and not run") {
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  float small[2] = {1, 2};
  const auto estimate = [&](std::size_t count) {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int rank = 0; rank < 2; ++rank)
      CHECK(ncclAllReduce(&small[rank], &small[rank], count, ncclFloat32, ncclSum, comms[rank], nullptr) ==
            ncclSuccess);
    CHECK(ncclGroupSimulateEnd(&info) == ncclSuccess);
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    return info.estimatedTime;
  };
  const float short_us = estimate(1);
  CHECK(short_us > 0);
  CHECK(estimate(1 << 20) > 10 * short_us);
  CHECK(small[0] == 1);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
  ncclSimInfo_t wrong = NCCL_SIM_INFO_INITIALIZER;
  wrong.magic = 1;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclGroupSimulateEnd(&wrong) == ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("NULL handles are fine where NCCL says so, and refused elsewhere") {
  CHECK(ncclCommDestroy(nullptr) == ncclSuccess);
  CHECK(ncclCommAbort(nullptr) == ncclSuccess);
  CHECK(ncclCommFinalize(nullptr) == ncclSuccess);
  CHECK(ncclCommDeregister(nullptr, nullptr) == ncclSuccess);
  CHECK(ncclMemFree(nullptr) == ncclSuccess);
  int count = 0;
  CHECK(ncclCommCount(nullptr, &count) == ncclInvalidArgument);
}

TEST_CASE("a destroyed communicator is refused, not used") {
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  CHECK(ncclCommFinalize(comm) == ncclSuccess);
  CHECK(ncclCommFinalize(comm) == ncclInvalidArgument);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclInvalidArgument);
  float value = 1;
  CHECK(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) == ncclInvalidArgument);
}

TEST_CASE("an operation is known only to the communicator and the type it was made for") {
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(&comms[0], 1, nullptr) == ncclSuccess);
  REQUIRE(ncclCommInitAll(&comms[1], 1, nullptr) == ncclSuccess);
  float scalar = 3;
  ncclRedOp_t op = ncclSum;
  REQUIRE(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, comms[0]) == ncclSuccess);
  float value = 2;
  double wide = 2;
  CHECK(ncclAllReduce(&value, &value, 1, ncclFloat32, op, comms[0], nullptr) == ncclSuccess);
  CHECK(value == 6);
  CHECK(ncclAllReduce(&value, &value, 1, ncclFloat32, op, comms[1], nullptr) == ncclInvalidArgument);
  CHECK(ncclAllReduce(&wide, &wide, 1, ncclFloat64, op, comms[0], nullptr) == ncclInvalidArgument);
  CHECK(ncclRedOpDestroy(ncclSum, comms[0]) == ncclInvalidArgument);
  CHECK(ncclRedOpDestroy(op, comms[0]) == ncclSuccess);
  CHECK(ncclRedOpDestroy(op, comms[0]) == ncclInvalidArgument);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("errors have NCCL's texts") {
  CHECK(std::string(ncclGetErrorString(ncclSuccess)) == "no error");
  CHECK(std::string(ncclGetErrorString(ncclRemoteError)) == "remote process exited or there was a network error");
  CHECK(std::string(ncclGetErrorString(static_cast<ncclResult_t>(99))) == "unknown result code");
}
