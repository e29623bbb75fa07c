// The parameter calls over the table of environment variables.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "nccl_shim/nccl.h"

namespace {

ncclParamHandle_t bound(const char* key) {
  ncclParamHandle_t handle = nullptr;
  REQUIRE(ncclParamBind(&handle, key) == ncclSuccess);
  return handle;
}

// Sets a variable for one scope.
struct Variable {
  Variable(const char* name, const char* value) : name(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name); }
  const char* name;
};

}  // namespace

TEST_CASE("a parameter is bound by its name, always to the same handle") {
  CHECK(bound("NCCL_DEBUG") == bound("NCCL_DEBUG"));
  auto untouched = reinterpret_cast<ncclParamHandle_t>(0x1);
  CHECK(ncclParamBind(&untouched, "NCCL_NO_SUCH_PARAMETER") == ncclInvalidArgument);
  CHECK(ncclParamBind(&untouched, "nccl_debug") == ncclInvalidArgument);
  CHECK(ncclParamBind(&untouched, nullptr) == ncclInvalidArgument);
  CHECK(untouched == reinterpret_cast<ncclParamHandle_t>(0x1));
  CHECK(ncclParamBind(nullptr, "NCCL_DEBUG") == ncclInvalidArgument);
}

TEST_CASE("numbers are read as int64, defaults included") {
  const auto handle = bound("SCCL_SLOT_BYTES");
  std::int64_t value = 0;
  CHECK(ncclParamGetI64(handle, &value) == ncclSuccess);
  CHECK(value == 131072);
  const Variable set("SCCL_SLOT_BYTES", "65536");
  CHECK(ncclParamGetI64(handle, &value) == ncclSuccess);
  CHECK(value == 65536);
  CHECK(ncclParamGetI64(bound("NCCL_MAX_NCHANNELS"), &value) == ncclSuccess);
  CHECK(value == NCCL_CONFIG_UNDEF_INT);
}

TEST_CASE("a parameter is read by its own type only") {
  const auto number = bound("SCCL_SLOT_BYTES");
  std::int8_t i8 = 0;
  std::int16_t i16 = 0;
  std::int32_t i32 = 0;
  std::int64_t i64 = 0;
  std::uint8_t u8 = 0;
  std::uint16_t u16 = 0;
  std::uint32_t u32 = 0;
  std::uint64_t u64 = 0;
  const char* text = nullptr;
  CHECK(ncclParamGetI8(number, &i8) == ncclInvalidArgument);
  CHECK(ncclParamGetI16(number, &i16) == ncclInvalidArgument);
  CHECK(ncclParamGetI32(number, &i32) == ncclInvalidArgument);
  CHECK(ncclParamGetU8(number, &u8) == ncclInvalidArgument);
  CHECK(ncclParamGetU16(number, &u16) == ncclInvalidArgument);
  CHECK(ncclParamGetU32(number, &u32) == ncclInvalidArgument);
  CHECK(ncclParamGetU64(number, &u64) == ncclInvalidArgument);
  CHECK(ncclParamGetStr(number, &text) == ncclInvalidArgument);
  CHECK(ncclParamGetI64(bound("NCCL_DEBUG"), &i64) == ncclInvalidArgument);
  CHECK(ncclParamGetU64(bound("NCCL_DEBUG_SUBSYS"), &u64) == ncclSuccess);
  CHECK(u64 == 0x1081);
}

TEST_CASE("texts stay valid after they change") {
  const auto handle = bound("NCCL_SOCKET_IFNAME");
  const char* first = nullptr;
  {
    const Variable set("NCCL_SOCKET_IFNAME", "eth");
    REQUIRE(ncclParamGetStr(handle, &first) == ncclSuccess);
  }
  const Variable set("NCCL_SOCKET_IFNAME", "ib");
  const char* second = nullptr;
  REQUIRE(ncclParamGetStr(handle, &second) == ncclSuccess);
  CHECK(std::string(first) == "eth");
  CHECK(std::string(second) == "ib");
}

TEST_CASE("raw values fill a buffer that is large enough") {
  const Variable set("NCCL_SOCKET_IFNAME", "eth0");
  char buffer[64];
  int length = -1;
  CHECK(ncclParamGet(bound("NCCL_SOCKET_IFNAME"), buffer, sizeof buffer, &length) == ncclSuccess);
  CHECK(length == 5);
  CHECK(std::strcmp(buffer, "eth0") == 0);
  CHECK(ncclParamGet(bound("NCCL_SOCKET_IFNAME"), buffer, 4, &length) == ncclInvalidArgument);
  CHECK(length == 0);
  length = -7;
  CHECK(ncclParamGet(bound("NCCL_SOCKET_IFNAME"), buffer, 0, &length) == ncclInvalidArgument);
  CHECK(length == -7);
  CHECK(ncclParamGet(bound("SCCL_SLOT_BYTES"), buffer, sizeof buffer, &length) == ncclSuccess);
  std::int64_t value = 0;
  REQUIRE(length == sizeof value);
  std::memcpy(&value, buffer, sizeof value);
  CHECK(value == 131072);
}

TEST_CASE("values are found by key, as text") {
  const char* value = reinterpret_cast<const char*>(0x1);
  int length = -1;
  CHECK(ncclParamGetParameter("NCCL_NO_SUCH", &value, &length) == ncclInvalidArgument);
  CHECK(value == nullptr);
  CHECK(length == 0);
  const Variable set("NCCL_IB_HCA", "mlx5");
  CHECK(ncclParamGetParameter("NCCL_IB_HCA", &value, &length) == ncclSuccess);
  CHECK(std::string(value) == "mlx5");
  CHECK(length == 4);
  CHECK(ncclParamGetParameter("NCCL_IB_HCA", nullptr, &length) == ncclInvalidArgument);
  CHECK(ncclParamGetParameter("NCCL_IB_HCA", &value, nullptr) == ncclInvalidArgument);
}

TEST_CASE("every key is listed once") {
  const char** keys = nullptr;
  int count = 0;
  REQUIRE(ncclParamGetAllParameterKeys(&keys, &count) == ncclSuccess);
  std::set<std::string> names;
  for (int i = 0; i < count; ++i) {
    CHECK(names.insert(keys[i]).second);
    ncclParamHandle_t handle = nullptr;
    CHECK(ncclParamBind(&handle, keys[i]) == ncclSuccess);
  }
  CHECK(names.count("NCCL_DEBUG") == 1);
  CHECK(ncclParamGetAllParameterKeys(nullptr, &count) == ncclInvalidArgument);
  CHECK(ncclParamGetAllParameterKeys(&keys, nullptr) == ncclInvalidArgument);
}

TEST_CASE("a handle that was never bound is refused") {
  std::int64_t value = 0;
  int decoy = 0;
  CHECK(ncclParamGetI64(nullptr, &value) == ncclInvalidArgument);
  CHECK(ncclParamGetI64(reinterpret_cast<ncclParamHandle_t>(&decoy), &value) == ncclInvalidArgument);
}
