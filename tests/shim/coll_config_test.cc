// Collectives with a configuration of the call: what is accepted, what is refused, and that the data is the plain
// call's.
#include "shim/coll_config.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/settings/log.h"
#include "shim/config.h"

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

namespace {

// Two ranks of one thread.
class Pair {
 public:
  Pair() { REQUIRE(ncclCommInitAll(comms_, 2, nullptr) == ncclSuccess); }
  ~Pair() {
    for (ncclComm_t comm : comms_) ncclCommDestroy(comm);
  }
  ncclComm_t first() const { return comms_[0]; }

  // AllReduce of 1000 floats, each rank with its own configuration; the result of the group's end.
  ncclResult_t all_reduce(const ncclCollConfig_t* first, const ncclCollConfig_t* second) {
    std::vector<float> send[2]{std::vector<float>(1000, 1), std::vector<float>(1000, 2)};
    std::vector<float> recv[2]{std::vector<float>(1000), std::vector<float>(1000)};
    REQUIRE(ncclGroupStart() == ncclSuccess);
    const ncclCollConfig_t* const configs[2] = {first, second};
    for (int rank = 0; rank < 2; ++rank)
      ncclAllReduceConfig(send[rank].data(), recv[rank].data(), 1000, ncclFloat32, ncclSum, comms_[rank], nullptr,
                          configs[rank]);
    const ncclResult_t result = ncclGroupEnd();
    if (result == ncclSuccess)
      for (const auto& values : recv) CHECK(values == std::vector<float>(1000, 3));
    return result;
  }

 private:
  ncclComm_t comms_[2];
};

// The library's lines about choices while `body` runs.
template <typename Body>
std::string tuning_log(Body&& body) {
  const std::string path = std::filesystem::temp_directory_path() / fmt::format("sccl-coll-config-{}", ::getpid());
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_SUBSYS", "TUNING", 1);
  ::setenv("NCCL_DEBUG_FILE", path.c_str(), 1);
  log::reset();
  body();
  for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) ::unsetenv(name);
  log::reset();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  return text.str();
}

}  // namespace

TEST_CASE("a single call is served by the algorithm that it names, as NCCL or this library calls it") {
  for (const auto& [name, serving] : std::map<std::string, std::string>{{"Ring", "ring"},
                                                                        {"tree", "binomial"},
                                                                        {"^ring", "binomial"},
                                                                        {"allreduce:tree;broadcast:ring", "binomial"},
                                                                        {"one-hop", "one-hop"},
                                                                        {"recursive", "recursive"}}) {
    CAPTURE(name);
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.algSelection = name.c_str();
    const std::string log = tuning_log([&] {
      Pair pair;
      CHECK(pair.all_reduce(nullptr, nullptr) == ncclSuccess);
      for (int i = 0; i < 3; ++i) CHECK(pair.all_reduce(&config, &config) == ncclSuccess);
      CHECK(pair.all_reduce(nullptr, nullptr) == ncclSuccess);
    });
    CAPTURE(log);
    CHECK_THAT(log, Catch::Contains(serving));
    CHECK_THAT(log, Catch::Contains("asked for with the call"));
  }
}

TEST_CASE("an algorithm that cannot be had is an error when it is forced, before any rank is told, and no error else") {
  Pair pair;
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  for (const char* name : {"NVLS", "nonsense", "trees/32"}) {
    config.algSelection = name;
    config.forceAlgSelection = 1;
    CHECK(pair.all_reduce(&config, &config) == ncclInvalidUsage);
    CHECK_THAT(ncclGetLastError(pair.first()), Catch::Contains("cannot be had"));
    config.forceAlgSelection = 0;
    CHECK(pair.all_reduce(&config, &config) == ncclSuccess);
  }
}

TEST_CASE("this library's options serve a single call, and what they do not allow is refused by name") {
  ncclConfigExt_t slice = option(SCCL_CONFIG_VENDOR, SCCL_CONFIG_SLICE_BYTES, nullptr);
  slice.val.i = 8192;
  ncclConfigExt_t protocol = option(SCCL_CONFIG_VENDOR, SCCL_CONFIG_PROTOCOL, &slice);
  protocol.val.s = "simple";
  ncclConfigExt_t schedule = option(SCCL_CONFIG_VENDOR, SCCL_CONFIG_SCHEDULE, &protocol);
  schedule.val.s = "ring";
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.ext = &schedule;
  const std::string log = tuning_log([&] {
    Pair pair;
    CHECK(pair.all_reduce(&config, &config) == ncclSuccess);
    schedule.val.s = "nonsense";
    CHECK(pair.all_reduce(&config, &config) == ncclInvalidUsage);
    schedule.val.s = "ring";
    protocol.val.s = "quick";
    CHECK(pair.all_reduce(&config, &config) == ncclInvalidArgument);
    protocol.val.s = nullptr;
    CHECK(pair.all_reduce(&config, &config) == ncclInvalidArgument);
    protocol.val.s = "ll";
    slice.val.i = 1;
    CHECK(pair.all_reduce(&config, &config) == ncclInvalidArgument);
    slice.key.optionId = 99;
    CHECK(pair.all_reduce(&config, &config) == ncclInvalidArgument);
  });
  CHECK_THAT(log, Catch::Contains("ring (simple) serves; asked for with the call"));
}

TEST_CASE("ranks that give one call different options are told so") {
  Pair pair;
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.algSelection = "ring";
  CHECK(pair.all_reduce(&config, nullptr) == ncclInvalidUsage);
  CHECK_THAT(ncclGetLastError(pair.first()), Catch::Contains("with options"));
  CHECK_THAT(ncclGetLastError(pair.first()), Catch::Contains("ncclCollConfig_t"));
}

TEST_CASE("what is each rank's own in a call's configuration need not be the same") {
  Pair pair;
  ncclConfigExt_t limit = option(SCCL_CONFIG_VENDOR, SCCL_CONFIG_TIMEOUT_MS, nullptr);
  limit.val.i = 60000;
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.ext = &limit;
  config.userProfilerTag = 17;
  config.maxCTAs = 4;
  CHECK(pair.all_reduce(&config, nullptr) == ncclSuccess);
}

TEST_CASE("a call ends after its own time limit, else after its communicator's, however long others may last") {
  for (const bool of_call : {true, false}) {
    CAPTURE(of_call);
    scclConfig_t options = SCCL_CONFIG_INITIALIZER;
    options.timeoutMs = of_call ? 0 : 100;
    ncclUniqueId id;
    REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    ncclComm_t comms[2];
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int rank = 0; rank < 2; ++rank)
      REQUIRE(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &options.nccl) == ncclSuccess);
    REQUIRE(ncclGroupEnd() == ncclSuccess);
    ncclConfigExt_t limit = option(SCCL_CONFIG_VENDOR, SCCL_CONFIG_TIMEOUT_MS, nullptr);
    limit.val.i = 100;
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.ext = of_call ? &limit : nullptr;
    float value = 1;  // the other rank never comes
    CHECK(ncclAllReduceConfig(&value, &value, 1, ncclFloat32, ncclSum, comms[0], nullptr, &config) == ncclRemoteError);
    CHECK_THAT(ncclGetLastError(comms[0]),
               Catch::Contains("gave up") && Catch::Contains("timeout=100") && Catch::Contains("waiting for rank 1"));
    for (ncclComm_t comm : comms) CHECK(ncclCommAbort(comm) == ncclSuccess);
  }
}

TEST_CASE("a completion event is refused where nothing is launched") {
  Pair pair;
  int dummy = 0;
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(&dummy);
  CHECK(pair.all_reduce(&config, &config) == ncclInvalidUsage);
  CHECK_THAT(ncclGetLastError(pair.first()), Catch::Contains("launchCompletionEvent needs a device"));
}

TEST_CASE("of several algorithms the one that is left serves, and none of them is an error when it is forced") {
  const auto asked = [](const char* selection) {
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.algSelection = selection;
    return shim::options_of(config, Collective::allreduce).wish.algorithm;
  };
  CHECK(asked("Ring,NVLS") == "ring");
  CHECK(asked("ring,tree").empty());
  CHECK(asked("^NVLS").empty());
  CHECK(asked("^Tree") == "ring");
  CHECK(asked("broadcast:ring").empty());
  CHECK(asked("auto").empty());
  CHECK(asked("tree;allreduce:one-hop") == "one-hop");
  CHECK(asked("NVLS,PAT") == "nvls,pat");
  Pair pair;
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.algSelection = "NVLS,PAT";
  CHECK(pair.all_reduce(&config, &config) == ncclInvalidUsage);
}

TEST_CASE("a call's configuration of any size is read or refused, whatever lies in and behind it") {
  for (std::size_t size = 0; size <= sizeof(ncclCollConfig_t) + 32; ++size) {
    CAPTURE(size);
    std::vector<unsigned char> memory(sizeof(ncclCollConfig_t) + 32, 0x5a);
    ncclCollConfig_t given = NCCL_COLLCONFIG_INITIALIZER;
    given.size = size;
    given.version = size < sizeof given ? 23102 : 23203;
    std::memcpy(memory.data(), &given, std::max(std::min(size, sizeof given), offsetof(ncclCollConfig_t, ext)));
    ncclCollConfig_t* const passed = reinterpret_cast<ncclCollConfig_t*>(memory.data());
    if (size < offsetof(ncclCollConfig_t, launchCompletionEvent)) {
      CHECK_THROWS_AS(shim::read_coll_config(passed), Error);
      continue;
    }
    const ncclCollConfig_t read = shim::read_coll_config(passed);
    CHECK(read.size == sizeof read);
    CHECK(read.launchCompletionEvent == nullptr);
    CHECK(shim::options_of(read, Collective::allreduce).wish.empty());
  }
}

TEST_CASE("a communicator's time limit is read from this library's configuration alone") {
  scclConfig_t config = SCCL_CONFIG_INITIALIZER;
  CHECK(shim::timeout_ms(&config.nccl) == -1);
  config.timeoutMs = 250;
  CHECK(shim::timeout_ms(&config.nccl) == 250);
  CHECK(shim::read_config(&config.nccl).blocking == NCCL_CONFIG_UNDEF_INT);
  config.scclMagic = 5;  // a longer structure of another version
  CHECK(shim::timeout_ms(&config.nccl) == -1);
  config.scclMagic = SCCL_CONFIG_MAGIC;
  config.nccl.size = sizeof(ncclConfig_t);
  CHECK(shim::timeout_ms(&config.nccl) == -1);
  CHECK(shim::timeout_ms(nullptr) == -1);
  config.nccl.size = sizeof config;
  config.timeoutMs = -5;
  CHECK_THROWS_AS(shim::timeout_ms(&config.nccl), Error);
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
