// The parameter calls, on the table of environment variables: a handle is a row of the table. As in NCCL a value can be
// read only as its own type: whole numbers are int64, the mask of NCCL_DEBUG_SUBSYS is uint64, all others are text.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/settings/env.h"
#include "shim/boundary.h"

using namespace sccl;
using namespace sccl::shim;

namespace {

enum class Type { text, i64, u64 };

Type type_of(const env::Variable& variable) {
  if (variable.name == "NCCL_DEBUG_SUBSYS") return Type::u64;
  return env::kind(variable) == env::Kind::number ? Type::i64 : Type::text;
}

const char* type_name(Type type) { return type == Type::i64 ? "int64_t" : type == Type::u64 ? "uint64_t" : "string"; }

// Callers keep the pointers, so each text is stored once for the life of the process. Never destroyed.
const std::string& kept(const std::string& text) {
  struct Texts {
    std::mutex mutex;
    std::set<std::string> all;
  };
  static auto* const texts = new Texts;
  const std::lock_guard lock(texts->mutex);
  return *texts->all.insert(text).first;
}

template <typename T>
void require(const T* pointer, const char* what) {
  if (pointer == nullptr) fail(ErrorCode::invalid_argument, "{} is NULL", what);
}

const env::Variable& variable_of(const char* key) {
  require(key, "key");
  const env::Variable* variable = env::find(key);
  if (variable == nullptr) fail(ErrorCode::invalid_argument, "{} is no parameter: sccl env lists them", key);
  return *variable;
}

const env::Variable& variable_of(ncclParamHandle_t handle) {
  require(handle, "the handle");
  for (const env::Variable& variable : env::table())
    if (reinterpret_cast<const void*>(&variable) == handle) return variable;
  fail(ErrorCode::invalid_argument, "the handle was not made by ncclParamBind");
}

// A default that is no fixed number gives the number that means "undefined".
std::int64_t default_number(const env::Variable& variable) {
  std::int64_t number = 0;
  const char* end = variable.fallback.data() + variable.fallback.size();
  const auto [stop, error] = std::from_chars(variable.fallback.data(), end, number);
  return error == std::errc{} && stop == end ? number : NCCL_CONFIG_UNDEF_INT;
}

std::int64_t number_of(const env::Variable& variable) {
  return env::number(variable.name, default_number(variable), INT64_MIN, INT64_MAX);
}

template <typename T>
void answer(ncclParamHandle_t handle, T* out, Type type) {
  require(out, "the place for the result");
  const env::Variable& variable = variable_of(handle);
  if (type_of(variable) != type)
    fail(ErrorCode::invalid_argument, "{} is of type {}: ask for that type", variable.name,
         type_name(type_of(variable)));
  if constexpr (std::is_same_v<T, std::uint64_t>)
    *out = log::subsystem_mask();
  else
    *out = static_cast<T>(number_of(variable));
}

// No parameter has a narrower type.
template <typename T>
ncclResult_t refuse_width(const char* call, ncclParamHandle_t handle, const T* out) {
  return guarded(call, [&] {
    require(out, "the place for the result");
    const env::Variable& variable = variable_of(handle);
    fail(ErrorCode::invalid_argument, "{} is of type {}: ask for that type", variable.name,
         type_name(type_of(variable)));
  });
}

std::string raw_bytes(const env::Variable& variable) {
  if (type_of(variable) == Type::text) {
    std::string text = env::text(variable.name).value_or("");
    text.push_back('\0');
    return text;
  }
  const std::uint64_t bits =
      type_of(variable) == Type::u64 ? log::subsystem_mask() : static_cast<std::uint64_t>(number_of(variable));
  return std::string(reinterpret_cast<const char*>(&bits), sizeof bits);
}

void get_raw(ncclParamHandle_t handle, void* out, int room, int* length) {
  require(out, "the place for the result");
  require(length, "the place for the length");
  const env::Variable& variable = variable_of(handle);
  if (room <= 0) fail(ErrorCode::invalid_argument, "maxLen is {}: give the size of the buffer", room);
  *length = 0;
  const std::string bytes = raw_bytes(variable);
  if (bytes.size() > static_cast<std::size_t>(room))
    fail(ErrorCode::invalid_argument, "{} takes {} bytes and the buffer has {}", variable.name, bytes.size(), room);
  std::memcpy(out, bytes.data(), bytes.size());
  *length = static_cast<int>(bytes.size());
}

// The value that is set, else the default in the table's words.
std::string shown(const env::Variable& variable) {
  return env::text(variable.name).value_or(std::string(variable.fallback));
}

void get_by_key(const char* key, const char** value, int* length) {
  require(value, "the place for the value");
  require(length, "the place for the length");
  *value = nullptr;
  *length = 0;
  const std::string& text = kept(shown(variable_of(key)));
  *value = text.c_str();
  *length = static_cast<int>(text.size());
}

// The table's names are literals, so they end with a zero.
const std::vector<const char*>& keys() {
  static const auto* const all = [] {
    auto* names = new std::vector<const char*>;
    for (const env::Variable& variable : env::table()) names->push_back(variable.name.data());
    return names;
  }();
  return *all;
}

void dump_all() {
  std::string page = "=== ncclParam Registry Dump ===\n";
  for (const env::Variable& variable : env::table()) {
    const auto value = env::value(variable.name);
    page += fmt::format("{} ({})\n  Current value={} default={} set_by={}\n  {}\n", variable.name,
                        type_name(type_of(variable)), shown(variable), variable.fallback,
                        value ? value->origin : "Default", variable.meaning);
  }
  std::fputs(page.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

extern "C" {

ncclResult_t pncclParamBind(ncclParamHandle_t* out, const char* key) {
  return guarded("ncclParamBind", [&] {
    require(out, "the place for the handle");
    const void* row = &variable_of(key);
    *out = static_cast<ncclParamHandle_t>(const_cast<void*>(row));
  });
}

ncclResult_t pncclParamGetI8(ncclParamHandle_t h, int8_t* out) { return refuse_width("ncclParamGetI8", h, out); }
ncclResult_t pncclParamGetI16(ncclParamHandle_t h, int16_t* out) { return refuse_width("ncclParamGetI16", h, out); }
ncclResult_t pncclParamGetI32(ncclParamHandle_t h, int32_t* out) { return refuse_width("ncclParamGetI32", h, out); }
ncclResult_t pncclParamGetU8(ncclParamHandle_t h, uint8_t* out) { return refuse_width("ncclParamGetU8", h, out); }
ncclResult_t pncclParamGetU16(ncclParamHandle_t h, uint16_t* out) { return refuse_width("ncclParamGetU16", h, out); }
ncclResult_t pncclParamGetU32(ncclParamHandle_t h, uint32_t* out) { return refuse_width("ncclParamGetU32", h, out); }

ncclResult_t pncclParamGetI64(ncclParamHandle_t h, int64_t* out) {
  return guarded("ncclParamGetI64", [&] { answer(h, out, Type::i64); });
}

ncclResult_t pncclParamGetU64(ncclParamHandle_t h, uint64_t* out) {
  return guarded("ncclParamGetU64", [&] { answer(h, out, Type::u64); });
}

ncclResult_t pncclParamGetStr(ncclParamHandle_t h, const char** out) {
  return guarded("ncclParamGetStr", [&] {
    require(out, "the place for the result");
    const env::Variable& variable = variable_of(h);
    if (type_of(variable) != Type::text)
      fail(ErrorCode::invalid_argument, "{} is of type {}: ask for that type", variable.name,
           type_name(type_of(variable)));
    *out = kept(env::text(variable.name).value_or("")).c_str();
  });
}

ncclResult_t pncclParamGet(ncclParamHandle_t h, void* out, int maxLen, int* len) {
  return guarded("ncclParamGet", [&] { get_raw(h, out, maxLen, len); });
}

ncclResult_t pncclParamGetParameter(const char* key, const char** value, int* valueLen) {
  return guarded("ncclParamGetParameter", [&] { get_by_key(key, value, valueLen); });
}

ncclResult_t pncclParamGetAllParameterKeys(const char*** table, int* tableLen) {
  return guarded("ncclParamGetAllParameterKeys", [&] {
    require(table, "the place for the table");
    require(tableLen, "the place for its length");
    *table = const_cast<const char**>(keys().data());
    *tableLen = static_cast<int>(keys().size());
  });
}

void pncclParamDumpAll(void) {
  guarded("ncclParamDumpAll", [] { dump_all(); });
}

SCCL_WEAK_NAME(ParamBind);
SCCL_WEAK_NAME(ParamGetI8);
SCCL_WEAK_NAME(ParamGetI16);
SCCL_WEAK_NAME(ParamGetI32);
SCCL_WEAK_NAME(ParamGetI64);
SCCL_WEAK_NAME(ParamGetU8);
SCCL_WEAK_NAME(ParamGetU16);
SCCL_WEAK_NAME(ParamGetU32);
SCCL_WEAK_NAME(ParamGetU64);
SCCL_WEAK_NAME(ParamGetStr);
SCCL_WEAK_NAME(ParamGet);
SCCL_WEAK_NAME(ParamGetParameter);
SCCL_WEAK_NAME(ParamGetAllParameterKeys);
SCCL_WEAK_NAME(ParamDumpAll);

}  // extern "C"
