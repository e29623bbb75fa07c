// Calls on host memory that are given a real stream come after what is on it.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "gpu/device_world.h"

using namespace api_test;
using namespace gpu_test;

namespace {

// Work on a stream that does not go on until it is let go: then the bytes of `values` become `byte`.
class HeldStream {
 public:
  HeldStream(const OnDevice& device, std::vector<int>& values, unsigned char byte) : device_(device) {
    const Spared spared;
    constexpr unsigned kEqual = 1;
    holds_ = cuMemHostAlloc(reinterpret_cast<void**>(&word_), sizeof *word_, 3) == 0;
    if (!holds_) return;
    *word_ = 0;
    holds_ = cuStreamWaitValue32_v2(device.stream(), reinterpret_cast<unsigned long long>(word_), 1, kEqual) == 0 &&
             cuMemsetD8Async(reinterpret_cast<unsigned long long>(values.data()), byte, values.size() * sizeof(int),
                             device.stream()) == 0;
  }
  ~HeldStream() {
    const Spared spared;
    let_go();
    device_.synchronize();
    cuMemFreeHost(word_);
  }
  bool holds() const { return holds_; }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  void let_go() { std::atomic_ref<unsigned>(*word_).store(1); }

 private:
  const OnDevice& device_;
  unsigned* word_ = nullptr;
  bool holds_ = false;
};

// Lets a stream go when the call has been under way for a while, or is about to be.
class LetGoLater {
 public:
  explicit LetGoLater(HeldStream& held)
      : thread_([&held] {
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
          held.let_go();
        }) {}
  ~LetGoLater() { thread_.join(); }
  LetGoLater(const LetGoLater&) = delete;
  LetGoLater& operator=(const LetGoLater&) = delete;

 private:
  std::thread thread_;
};

std::string after_stream(int rank, ncclComm_t comm, const OnDevice& device, bool grouped) {
  std::vector<int> values(1000, 0), sums(1000, 0);
  HeldStream held(device, values, static_cast<unsigned char>(rank + 1));
  if (!held.holds()) return "the stream cannot be held";
  if (grouped) ncclGroupStart();
  const LetGoLater later(held);
  const ncclResult_t called =
      ncclAllReduce(values.data(), sums.data(), values.size(), ncclInt, ncclSum, comm, device.stream());
  const ncclResult_t ended = grouped ? ncclGroupEnd() : ncclSuccess;
  if (called != ncclSuccess || ended != ncclSuccess) return ncclGetLastError(nullptr);
  return sums == std::vector<int>(1000, 0x03030303) ? "" : "the call did not come after the work on the stream";
}

struct Inbox {
  std::vector<int> values = std::vector<int>(1000, 0);
  ncclWindow_t window = nullptr;
};

std::string put_after_stream(int rank, ncclComm_t comm, const OnDevice& device, const Inbox& inbox, bool grouped) {
  std::vector<int> values(1000, 0);
  HeldStream held(device, values, static_cast<unsigned char>(rank + 1));
  if (!held.holds()) return "the stream cannot be held";
  const LetGoLater later(held);
  if (grouped) ncclGroupStart();
  const ncclResult_t called =
      ncclPutSignal(values.data(), values.size(), ncclInt, 1 - rank, inbox.window, 0, 0, 0, 0, comm, device.stream());
  const ncclResult_t ended = grouped ? ncclGroupEnd() : ncclSuccess;
  ncclWaitSignalDesc_t wait{1, 1 - rank, 0, 0};
  if (called != ncclSuccess || ended != ncclSuccess || ncclWaitSignal(1, &wait, comm, nullptr) != ncclSuccess)
    return ncclGetLastError(nullptr);
  return inbox.values == std::vector<int>(1000, rank == 0 ? 0x02020202 : 0x01010101)
             ? ""
             : "the put did not come after the work on the stream";
}

std::string wait_after_stream(int rank, ncclComm_t comm, const OnDevice& device, bool grouped) {
  std::vector<int> values(1000, 0);
  HeldStream held(device, values, 1);
  if (!held.holds()) return "the stream cannot be held";
  if (ncclSignal(1 - rank, 0, 0, 0, comm, nullptr) != ncclSuccess) return ncclGetLastError(nullptr);
  const LetGoLater later(held);
  if (grouped) ncclGroupStart();
  ncclWaitSignalDesc_t wait{1, 1 - rank, 0, 0};
  const ncclResult_t called = ncclWaitSignal(1, &wait, comm, device.stream());
  const ncclResult_t ended = grouped ? ncclGroupEnd() : ncclSuccess;
  if (called != ncclSuccess || ended != ncclSuccess) return ncclGetLastError(nullptr);
  return values == std::vector<int>(1000, 0x01010101) ? "" : "the wait did not come after the work on the stream";
}

}  // namespace

TEST_CASE("calls on host memory come after what is on the stream that they are given, alone and in groups") {
  const Setting platform("SCCL_PLATFORM", "host");
  for (const bool grouped : {false, true})
    CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) {
            return after_stream(rank, comm, device, grouped);
          })) == "");
}

TEST_CASE("one-sided calls on host memory come after what is on the stream that they are given") {
  const Setting platform("SCCL_PLATFORM", "host");
  for (const bool grouped : {false, true})
    CHECK(failures(
              run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
                Inbox inbox;
                if (ncclCommWindowRegister(comm, inbox.values.data(), inbox.values.size() * sizeof(int), &inbox.window,
                                           0) != ncclSuccess)
                  return ncclGetLastError(nullptr);
                std::string wrong = put_after_stream(rank, comm, device, inbox, grouped);
                if (wrong.empty()) wrong = wait_after_stream(rank, comm, device, grouped);
                ncclCommWindowDeregister(comm, inbox.window);
                return wrong;
              })) == "");
}

TEST_CASE("a thread that has chosen no device may give a call on host memory a stream") {
  const Setting platform("SCCL_PLATFORM", "host");
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) {
          std::string wrong;
          std::thread([&] {
            int value = rank + 1;
            if (ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm, device.stream()) != ncclSuccess)
              wrong = ncclGetLastError(nullptr);
            else if (value != 3)
              wrong = "wrong sum";
          }).join();
          return wrong;
        })) == "");
}

TEST_CASE("collectives, transfers and calls with a configuration take real streams on host memory") {
  const Setting platform("SCCL_PLATFORM", "host");
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            if (std::string wrong = run_cases(rank, 2, comm, {100}); !wrong.empty()) return wrong;
            float mine = static_cast<float>(rank), other = -1;
            ncclGroupStart();
            ncclSend(&mine, 1, ncclFloat, 1 - rank, comm, device.stream());
            ncclRecv(&other, 1, ncclFloat, 1 - rank, comm, device.stream());
            if (ncclGroupEnd() != ncclSuccess) return ncclGetLastError(nullptr);
            ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
            config.algSelection = "ring";
            if (ncclAllReduceConfig(&mine, &mine, 1, ncclFloat, ncclSum, comm, device.stream(), &config) != ncclSuccess)
              return ncclGetLastError(nullptr);
            return other == static_cast<float>(1 - rank) && mine == 1 ? "" : "wrong values";
          })) == "");
}

TEST_CASE("a stream that is captured, and one that the driver does not know, are refused on host memory") {
  const Setting platform("SCCL_PLATFORM", "host");
  CHECK(failures(run_device_world(Mode::threads, 1, [](int, ncclComm_t comm, const OnDevice& device) -> std::string {
          float value = 1;
          const auto refusal = [&](void* stream) -> std::string {
            const auto result =
                ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, static_cast<cudaStream_t>(stream));
            return result == ncclSuccess ? "" : ncclGetLastError(comm);
          };
          void* graph = nullptr;
          cuStreamBeginCapture_v2(device.stream(), 2);
          const std::string captured = refusal(device.stream());
          cuStreamEndCapture(device.stream(), &graph);
          cuGraphDestroy(graph);
          if (captured.find("being captured") == std::string::npos) return "of a capture: " + captured;
          const std::string unknown = refusal(&value);
          if (unknown.find("capture") == std::string::npos && unknown.find("stream") == std::string::npos)
            return "of an unknown one: " + unknown;
          return refusal(device.stream());  // goes on
        })) == "");
}

TEST_CASE("a time limit ends a call on host memory that waits for a stream") {
  const Setting platform("SCCL_PLATFORM", "host");
  CHECK(failures(run_bare_world(Mode::threads, 1, [](int, const ncclUniqueId& id) -> std::string {
          const OnDevice device;
          scclConfig_t config = SCCL_CONFIG_INITIALIZER;
          config.timeoutMs = 50;
          ncclComm_t comm = nullptr;
          if (ncclCommInitRankConfig(&comm, 1, id, 0, &config.nccl) != ncclSuccess) return ncclGetLastError(nullptr);
          std::vector<int> values(10, 0);
          const HeldStream held(device, values, 1);
          if (!held.holds()) return "the stream cannot be held";
          const ncclResult_t result =
              ncclAllReduce(values.data(), values.data(), values.size(), ncclInt, ncclSum, comm, device.stream());
          const std::string text = ncclGetLastError(nullptr);
          ncclCommAbort(comm);
          return result == ncclRemoteError && text.find("after the work on stream") != std::string::npos ? "" : text;
        })) == "");
}
