// Collectives with a configuration of the call: what is accepted, what is refused, and that the data is the plain
// call's.
#include "shim/coll_config.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/error.h"

using namespace sccl;

namespace {

template <typename Change>
std::string refusal(Change&& change, ErrorCode code = ErrorCode::invalid_argument) {
  ncclCollConfig_t given = NCCL_COLLCONFIG_INITIALIZER;
  change(given);
  try {
    shim::read_coll_config(&given);
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "";
}

ncclConfigExt_t option(int vendor, int id, ncclConfigExt_t* next) {
  ncclConfigExt_t result{};
  result.next = next;
  result.key.vendorId = vendor;
  result.key.optionId = id;
  return result;
}

}  // namespace

TEST_CASE("a call's configuration of 2.31 is read, whatever lies behind it") {
  ncclCollConfig_t passed;
  std::memset(&passed, 0x5a, sizeof passed);
  const ncclCollConfig_t full = NCCL_COLLCONFIG_INITIALIZER;
  std::memcpy(&passed, &full, 64);
  passed.size = 64;
  passed.version = 23102;
  passed.userProfilerTag = 7;
  const ncclCollConfig_t read = shim::read_coll_config(&passed);
  CHECK(read.userProfilerTag == 7);
  CHECK(read.launchCompletionEvent == nullptr);
}

TEST_CASE("invalid fields of a call's configuration are refused by name") {
  CHECK_THAT(refusal([](auto& c) { c.magic = 1; }), Catch::Contains("magic"));
  CHECK_THAT(refusal([](auto& c) { c.size = 16; }), Catch::Contains("size"));
  CHECK_THAT(refusal([](auto& c) { c.minCTAs = 0; }), Catch::Contains("minCTAs"));
  CHECK_THAT(refusal([](auto& c) { c.maxCTAs = -3; }), Catch::Contains("maxCTAs"));
  CHECK_THAT(refusal([](auto& c) { c.minCTAs = 5, c.maxCTAs = 4; }), Catch::Contains("exceeds"));
  CHECK_THAT(refusal([](auto& c) { c.nvlsCTAs = 0; }), Catch::Contains("nvlsCTAs"));
  CHECK_THAT(refusal([](auto& c) { c.cgaClusterSize = -1; }), Catch::Contains("cgaClusterSize"));
  CHECK_THAT(refusal([](auto& c) { c.forceAlgSelection = 2; }), Catch::Contains("forceAlgSelection"));
  CHECK_THAT(refusal([](auto& c) { c.CTAPolicy = 8; }), Catch::Contains("CTAPolicy"));
}

TEST_CASE("an algorithm for a single call is refused with the remedy, and passed over when it is not forced") {
  CHECK_THAT(refusal([](auto& c) { c.algSelection = "ring"; }, ErrorCode::invalid_usage), Catch::Contains("SCCL_ALGO"));
  CHECK(refusal([](auto& c) { c.algSelection = "ring", c.forceAlgSelection = 0; }).empty());
  CHECK(refusal([](auto& c) { c.algSelection = ""; }).empty());
}

TEST_CASE("a completion event is refused, not forgotten") {
  int dummy = 0;
  CHECK_THAT(refusal([&](auto& c) { c.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(&dummy); },
                     ErrorCode::invalid_usage),
             Catch::Contains("launchCompletionEvent"));
}

TEST_CASE("options of other vendors are passed over; lists with duplicate keys or a cycle are refused") {
  ncclConfigExt_t second = option(77, 2, nullptr);
  ncclConfigExt_t first = option(77, 1, &second);
  CHECK(refusal([&](auto& c) { c.ext = &first; }).empty());
  second.key.optionId = 1;
  CHECK_THAT(refusal([&](auto& c) { c.ext = &first; }), Catch::Contains("twice"));
  second.key.optionId = 2;
  second.next = &first;
  CHECK_THAT(refusal([&](auto& c) { c.ext = &first; }), Catch::Contains("cycle"));
}

TEST_CASE("a configured call gives what the plain one gives, and a refused one fails its group") {
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  float values[2] = {1, 2};
  float results[2] = {};
  float all[2][2] = {};
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(ncclAllReduceConfig(&values[rank], &results[rank], 1, ncclFloat32, ncclSum, comms[rank], nullptr, &config) ==
          ncclSuccess);
    CHECK(ncclAllGatherConfig(&values[rank], all[rank], 1, ncclFloat32, comms[rank], nullptr, nullptr) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK(results[0] == 3);
  CHECK(results[1] == 3);
  CHECK(all[1][0] == 1);
  CHECK(all[0][1] == 2);
  config.magic = 0;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclBroadcastConfig(values, values, 1, ncclFloat32, 0, comms[0], nullptr, &config) == ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("encryption is granted when none is asked for, and never pretended") {
  ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  CHECK(ncclSetEncryption(&config) == ncclSuccess);
  config.mode = NCCL_ENCRYPTION_MODE_PSK;
  config.psk = "secret";
  CHECK(ncclSetEncryption(&config) == ncclInvalidUsage);
  CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains("not encrypted"));
  CHECK(ncclSetEncryption(nullptr) == ncclInvalidArgument);
}

extern "C" ncclResult_t ncclCommQueryProperties(ncclComm_t comm, void* properties);

TEST_CASE("the query of properties answers that there is no device API, within the caller's struct") {
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  struct {
    std::size_t size = 40;
    unsigned magic = NCCL_API_MAGIC;
    unsigned version = 22800;
    int rank = -1, ranks = -1, device = -1, nvml = -1;
    unsigned char device_api = 9, multimem = 9;
    int gin = 9;
    int behind = 12345;
  } short_form;
  CHECK(ncclCommQueryProperties(comms[1], &short_form) == ncclSuccess);
  CHECK(short_form.rank == 1);
  CHECK(short_form.ranks == 2);
  CHECK(short_form.device_api == 0);
  CHECK(short_form.gin == 0);
  CHECK(short_form.behind == 12345);
  short_form.magic = 1;
  CHECK(ncclCommQueryProperties(comms[1], &short_form) == ncclInvalidArgument);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}
