// Worlds of ranks that have a vendor's library beside ours.
#pragma once

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "../api/world.h"

namespace vendor_test {

using Variables = std::map<std::string, std::string>;

// The calls that the vendor has served in this process since it was asked last; -1: it is not loaded.
inline int served_calls(const char* vendor = FAULTY_VENDOR) {
  void* const handle = ::dlopen(vendor, RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return -1;
  const int calls = reinterpret_cast<int (*)()>(::dlsym(handle, "faulty_vendor_calls"))();
  ::dlclose(handle);
  return calls;
}

// How many calls hang in the vendor now.
inline int hanging_calls() {
  void* const handle = ::dlopen(FAULTY_VENDOR, RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return 0;
  const int count = reinterpret_cast<int (*)()>(::dlsym(handle, "faulty_vendor_hanging"))();
  ::dlclose(handle);
  return count;
}

// Goes on after a minute: then the call has failed otherwise, and its text is to be read.
template <typename Condition>
void await_hanging_calls(const Condition& is_met) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!is_met(hanging_calls()) && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}
inline void await_hanging_call() {
  await_hanging_calls([](int calls) { return calls > 0; });
}

// Sets variables for the life of a test case. What was served before does not count for it, and what hangs ends with
// it.
class Environment {
 public:
  explicit Environment(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
    served_calls();
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
    await_hanging_calls([](int calls) { return calls == 0; });
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  Variables variables_;
};

// How many of the faulty vendor's communicators know the buffer.
inline int vendors_that_know(const void* buffer) {
  void* const handle = ::dlopen(FAULTY_VENDOR, RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return 0;
  const int count = reinterpret_cast<int (*)(const void*)>(::dlsym(handle, "faulty_vendor_knows"))(buffer);
  ::dlclose(handle);
  return count;
}

inline std::string describe(const char* what, ncclResult_t result) {
  return std::string(what) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(nullptr);
}

// "" when an AllReduce of ones gives the number of ranks.
inline std::string sums(ncclComm_t comm, int ranks, std::size_t count = 1000) {
  std::vector<float> data(count, 1.0f);
  const ncclResult_t result = ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr);
  if (result != ncclSuccess) return describe("AllReduce", result);
  for (const float value : data)
    if (value != static_cast<float>(ranks)) return "wrong sum " + std::to_string(value);
  return "";
}

// "" when the call fails with that code and a text that holds all words.
inline std::string fails(ncclResult_t result, ncclResult_t wanted, const std::vector<std::string>& words) {
  const std::string text = ncclGetLastError(nullptr);
  if (result != wanted) return describe("not the wanted code", result);
  for (const std::string& word : words)
    if (text.find(word) == std::string::npos) return "no \"" + word + "\" in: " + text;
  return "";
}

// An AllReduce that asks for the vendor's library, by NCCL's configuration of a call.
inline ncclResult_t reduce_by_vendor(ncclComm_t comm, float* data, std::size_t count, int force) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.algSelection = "vendor";
  config.forceAlgSelection = force;
  return ncclAllReduceConfig(data, data, count, ncclFloat32, ncclSum, comm, nullptr, &config);
}

}  // namespace vendor_test
