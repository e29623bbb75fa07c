// Streams of a runtime that has no driver below it, as one that plays devices on the host: nccl-tests and others create
// streams there, too.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "world.h"

using namespace api_test;

namespace {

constexpr int kEnded = 0;
constexpr int kNotReady = 600;
constexpr int kCaptured = 900;
constexpr int kUnknown = 400;

// The runtime is there while this object lives.
class EmulatedRuntime {
 public:
  EmulatedRuntime() : library_(::dlopen(EMULATED_RUNTIME, RTLD_NOW | RTLD_GLOBAL)) {}
  ~EmulatedRuntime() {
    if (library_ != nullptr) ::dlclose(library_);
  }
  EmulatedRuntime(const EmulatedRuntime&) = delete;
  EmulatedRuntime& operator=(const EmulatedRuntime&) = delete;
  bool is_there() const { return library_ != nullptr; }

 private:
  void* library_;
};

cudaStream_t handle_of(int& state) { return reinterpret_cast<cudaStream_t>(&state); }

std::string sum_on(int& stream, ncclComm_t comm, int& value) {
  return ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm, handle_of(stream)) == ncclSuccess
             ? ""
             : ncclGetLastError(comm);
}

std::string refusal(int state) {
  return run_world(Mode::threads, 1, [&](int, ncclComm_t comm) {
    int value = 1;
    return sum_on(state, comm, value);
  })[0];
}

}  // namespace

TEST_CASE("a call comes after what is on a stream of a runtime without a driver") {
  const EmulatedRuntime runtime;
  REQUIRE(runtime.is_there());
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          int stream = kNotReady;
          int value = 0;
          std::thread work([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            value = rank + 1;
            __atomic_store_n(&stream, kEnded, __ATOMIC_RELEASE);
          });
          std::string wrong = sum_on(stream, comm, value);
          work.join();
          if (wrong.empty() && value != 3) wrong = "the call did not come after the work on the stream";
          return wrong;
        })) == "");
}

TEST_CASE("streams that are captured, unknown, or of a runtime that cannot be asked are refused with the remedy") {
  CHECK_THAT(refusal(kEnded), Catch::Contains("pass NULL") && Catch::Contains("shared library"));
  const EmulatedRuntime runtime;
  REQUIRE(runtime.is_there());
  CHECK(refusal(kEnded) == "");
  CHECK_THAT(refusal(kCaptured), Catch::Contains("being captured"));
  CHECK_THAT(refusal(kUnknown), Catch::Contains("error 400"));
}
