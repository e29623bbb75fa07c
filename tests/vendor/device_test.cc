// The vendor's library on devices, which the host plays: its kernels and ours on the program's streams.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <optional>
#include <thread>

#include "gpu/device_world.h"
#include "vendor/device_interface.h"
#include "vendor/vendor_world.h"

using namespace api_test;
using namespace gpu_test;
using namespace vendor_test;

namespace {

const Variables kForced{{"SCCL_VENDOR", FAULTY_VENDOR}, {"SCCL_ALGO", "vendor"}};

// Integers in memory that the device can use.
class DeviceInts {
 public:
  DeviceInts(std::size_t count, int value) : count_(count) {
    const Spared spared;
    cuMemAlloc_v2(&address_, count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) data()[i] = value;
  }
  ~DeviceInts() {
    const Spared spared;
    cuMemFree_v2(address_);
  }
  DeviceInts(const DeviceInts&) = delete;
  DeviceInts& operator=(const DeviceInts&) = delete;
  int* data() const { return reinterpret_cast<int*>(address_); }
  bool all(int value) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (data()[i] != value) return false;
    return true;
  }

 private:
  std::size_t count_;
  unsigned long long address_ = 0;
};

ncclResult_t reduce(int* data, std::size_t count, ncclComm_t comm, cudaStream_t stream) {
  return ncclAllReduce(data, data, count, ncclInt32, ncclSum, comm, stream);
}

ncclResult_t reduce_by(const char* algorithm, int* data, std::size_t count, ncclComm_t comm, cudaStream_t stream) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.algSelection = algorithm;
  return ncclAllReduceConfig(data, data, count, ncclInt32, ncclSum, comm, stream, &config);
}

}  // namespace

TEST_CASE("on a device every collective is right through the vendor's library") {
  const Environment environment(kForced);
  CHECK(failures(run_device_world(Mode::threads, 2, [](int rank, ncclComm_t comm, const OnDevice&) {
          return run_cases(rank, 2, comm, {1, 77, 5000});
        })) == "");
  CHECK(served_calls() > 50);
}

TEST_CASE("on a device our calls and the vendor's keep their order, on one stream and on several") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR}});
  CHECK(failures(run_device_world(Mode::threads, 2, [](int, ncclComm_t comm, const OnDevice& device) -> std::string {
          void* other = nullptr;
          cuStreamCreate(&other, 1);
          const auto second = static_cast<cudaStream_t>(other);
          const DeviceInts data(4000, 1);
          int expected = 1;
          for (int repeat = 0; repeat < 4; ++repeat) {
            const bool grouped = repeat % 2 == 1;
            if (grouped) ncclGroupStart();
            for (const cudaStream_t stream : {device.stream(), second}) {
              const ncclResult_t ours = reduce(data.data(), 4000, comm, stream);
              const ncclResult_t theirs = reduce_by("vendor", data.data(), 4000, comm, stream);
              if (ours != ncclSuccess) return describe("our call", ours);
              if (theirs != ncclSuccess) return describe("the vendor's call", theirs);
              expected *= 4;
            }
            if (grouped && ncclGroupEnd() != ncclSuccess) return describe("group", ncclInternalError);
          }
          cuStreamSynchronize(other);
          device.synchronize();
          const bool right = data.all(expected);
          cuStreamDestroy_v2(other);
          return right ? "" : "wrong sum " + std::to_string(data.data()[0]);
        })) == "");
  CHECK(served_calls() == 16);
}

TEST_CASE("on a device one thread gives the vendor's library the calls of several ranks in a group") {
  const Environment environment(kForced);
  const OnDevice device;
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, std::vector<int>{0, 0}.data()) == ncclSuccess);
  void* other = nullptr;
  cuStreamCreate(&other, 1);
  {
    const DeviceInts first(100, 1), second(100, 2);
    for (int repeat = 0; repeat < 3; ++repeat) {
      ncclGroupStart();
      reduce(first.data(), 100, comms[0], device.stream());
      reduce(second.data(), 100, comms[1], static_cast<cudaStream_t>(other));
      REQUIRE(ncclGroupEnd() == ncclSuccess);
    }
    cuStreamSynchronize(other);
    device.synchronize();
    CHECK(first.all(12));
    CHECK(second.all(12));
  }
  CHECK(served_calls() == 6);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
  cuStreamDestroy_v2(other);
}

TEST_CASE(
    "on a device a call that the vendor's library does not enqueue ends after its limit with an error that names it") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR},
                                          {"SCCL_ALGO", "vendor"},
                                          {"FAULTY_VENDOR", "AllReduce:hang"},
                                          {"SCCL_VENDOR_TIMEOUT_MS", "2500"}});
  CHECK(failures(run_device_world(Mode::threads, 2, [](int rank, ncclComm_t comm, const OnDevice& device) {
          const DeviceInts data(100, 1);
          const std::string wrong = fails(reduce(data.data(), 100, comm, device.stream()), ncclSystemError,
                                          {"AllReduce as call 1", "2500 ms", FAULTY_VENDOR, "SCCL_VENDOR=never"});
          if (!wrong.empty()) return wrong;
          const ncclResult_t next = reduce(data.data(), 100, comm, device.stream());
          return std::string(next == ncclSuccess ? "rank " + std::to_string(rank) + " goes on" : "");
        })) == "");
}

TEST_CASE("on a device a hang of the vendor's library for one rank of a group ends the calls of all its ranks") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR},
                                          {"SCCL_ALGO", "vendor"},
                                          {"FAULTY_VENDOR", "AllReduce:hang:1"},
                                          {"SCCL_VENDOR_TIMEOUT_MS", "2500"}});
  const OnDevice device;
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, std::vector<int>{0, 0}.data()) == ncclSuccess);
  {
    const DeviceInts first(100, 1), second(100, 2);
    ncclGroupStart();
    reduce(first.data(), 100, comms[0], device.stream());
    reduce(second.data(), 100, comms[1], device.stream());
    CHECK(fails(ncclGroupEnd(), ncclSystemError, {"AllReduce as call 1", "2500 ms", FAULTY_VENDOR}) == "");
    for (ncclComm_t comm : comms) {
      ncclResult_t state = ncclSuccess;
      CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
      CHECK(state == ncclSystemError);
    }
  }
  for (ncclComm_t comm : comms) CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("on a device an abort reaches a call that hangs in the vendor's library while it is enqueued") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR},
                                          {"SCCL_ALGO", "vendor"},
                                          {"FAULTY_VENDOR", "AllReduce:hang"},
                                          {"SCCL_VENDOR_TIMEOUT_MS", "0"}});
  std::atomic<int> calls{0};
  CHECK(failures(run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
          const OnDevice device;
          ncclComm_t comm = nullptr;
          if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return describe("init", ncclInternalError);
          const DeviceInts data(100, 1);
          ncclResult_t result = ncclSuccess;
          std::string text;
          std::thread caller([&] {
            result = reduce(data.data(), 100, comm, device.stream());
            text = ncclGetLastError(nullptr);
          });
          while (calls.load() < 2) {
            calls += std::max(0, served_calls());
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          }
          const ncclResult_t aborted = ncclCommAbort(comm);
          caller.join();
          if (aborted != ncclSuccess) return describe("abort", aborted);
          return result != ncclSuccess && !text.empty() ? "" : "the aborted call succeeded";
        })) == "");
}

TEST_CASE("on a device a rank that comes late is not taken for a library that hangs") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR},
                                          {"SCCL_ALGO", "vendor"},
                                          {"FAULTY_VENDOR", "AllReduce:meet"},
                                          {"SCCL_VENDOR_TIMEOUT_MS", "2500"}});
  CHECK(
      failures(run_device_world(Mode::threads, 2, [](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
        const DeviceInts data(100, 1);
        for (int repeat = 0; repeat < 2; ++repeat) {
          if (rank == 1 && repeat == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3200));
          if (const ncclResult_t result = reduce(data.data(), 100, comm, device.stream()); result != ncclSuccess)
            return describe("AllReduce", result);
        }
        device.synchronize();
        return data.all(4) ? "" : "wrong sum";
      })) == "");
}

TEST_CASE("on a device a library is found by itself, and left out where it fails") {
  const Environment folder(Variables{{"LD_LIBRARY_PATH", NAMED_VENDOR_FOLDER}});
  for (const char* fault : {"", "CommInitRankConfig:fail:1"}) {
    const Environment environment(Variables{{"FAULTY_VENDOR", fault}});
    const bool works = *fault == '\0';
    CHECK(failures(run_device_world(Mode::threads, 2, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
            const DeviceInts data(100, 1);
            const ncclResult_t named = reduce_by("vendor", data.data(), 100, comm, device.stream());
            if (works != (named == ncclSuccess)) return describe("by the vendor", named);
            const std::string wrong = works ? "" : fails(named, ncclInvalidUsage, {"rank 1", "the test asked for it"});
            if (!wrong.empty()) return wrong;
            const ncclResult_t ours = reduce(data.data(), 100, comm, device.stream());
            if (ours != ncclSuccess) return describe("ours", ours);
            device.synchronize();
            return data.all(works ? 4 : 2) ? "" : "wrong sum";
          })) == "");
  }
}

TEST_CASE("on a device memory that the vendor's library cannot take is a window of ours alone") {
  const Environment environment(
      Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"FAULTY_VENDOR", "CommWindowRegister:virtual"}});
  constexpr std::size_t kBytes = 4096;
  for (const int with_plain_memory : {-1, 1})
    CHECK(failures(
              run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
                const DeviceInts plain(kBytes / sizeof(int), 1);
                void *shared = nullptr, *seen = nullptr;
                ncclMemAlloc(&shared, kBytes);
                ncclWindow_t window = nullptr;
                void* const buffer = rank == with_plain_memory ? plain.data() : shared;
                const ncclResult_t made =
                    ncclCommWindowRegister(comm, buffer, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC);
                if (made != ncclSuccess || window == nullptr) return describe("register", made);
                std::string wrong;
                const bool theirs = ncclGetLsaDevicePointer(window, 0, rank, &seen) == ncclSuccess && seen == buffer;
                if (theirs != (with_plain_memory < 0))
                  wrong = theirs ? "the vendor has it" : "the vendor has no window";
                ncclDevComm on_device{};
                const ncclResult_t asked = ncclDevCommCreate(comm, &kRequirements, &on_device);
                wrong += theirs ? (asked == ncclSuccess ? "" : describe("create", asked))
                                : fails(asked, ncclInvalidUsage, {"ncclMemAlloc"});
                if (theirs) ncclDevCommDestroy(comm, &on_device);
                auto* const data = static_cast<int*>(buffer);
                std::fill_n(data, kBytes / sizeof(int), 1);
                const ncclResult_t ours = reduce(data, kBytes / sizeof(int), comm, device.stream());
                device.synchronize();
                if (ours != ncclSuccess || data[0] != 2) wrong += describe("a call in the window", ours);
                if (const ncclResult_t left = ncclCommWindowDeregister(comm, window); left != ncclSuccess)
                  wrong += describe("deregister", left);
                ncclMemFree(shared);
                return wrong;
              })) == "");
}

TEST_CASE("on a device what is captured before the ranks have agreed is served by our schedules") {
  const Environment environment(kForced);
  CHECK(failures(run_device_world(Mode::threads, 2, [](int, ncclComm_t comm, const OnDevice& device) -> std::string {
          const DeviceInts data(100, 1);
          void* graph = nullptr;
          cuStreamBeginCapture_v2(device.stream(), 1);
          const ncclResult_t result = reduce(data.data(), 100, comm, device.stream());
          cuStreamEndCapture(device.stream(), &graph);
          if (result != ncclSuccess) return describe("captured", result);
          const DeviceInts more(100, 1);
          const ncclResult_t later = reduce(more.data(), 100, comm, device.stream());
          if (later != ncclSuccess) return describe("later", later);
          device.synchronize();
          cuGraphDestroy(graph);
          return more.all(2) ? "" : "wrong sum";
        })) == "");
  CHECK(served_calls() == 2);
}

TEST_CASE("on a device an error that the vendor's library meets later is told as ours") {
  const Environment environment(
      Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"SCCL_ALGO", "vendor"}, {"FAULTY_VENDOR", ""}});
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  CHECK(failures(
            run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
              const DeviceInts data(100, 1);
              if (const ncclResult_t result = reduce(data.data(), 100, comm, device.stream()); result != ncclSuccess)
                return describe("AllReduce", result);
              device.synchronize();
              if (rank == 1) return "";
              ::setenv("FAULTY_VENDOR", "CommGetAsyncError:fail:0", 1);
              ncclResult_t state = ncclSuccess;
              while (state == ncclSuccess && std::chrono::steady_clock::now() < limit) {
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
                ncclCommGetAsyncError(comm, &state);
              }
              const ncclResult_t next = reduce(data.data(), 100, comm, device.stream());
              return next == ncclSuccess
                         ? "a failed communicator takes a call"
                         : fails(state, ncclSystemError, {"rank 0", FAULTY_VENDOR, "SCCL_VENDOR=never"});
            })) == "");
}

TEST_CASE("on a device a rank that dies while the vendor's library waits for it is named", "[processes]") {
  if (modes().size() < 2) sccl_test::skip(kNoProcesses);
  const Environment environment(kForced);
  // Outlives the communicator: the vendor's kernel reads it until that library is told to end it.
  std::optional<DeviceInts> data;
  const auto results =
      run_device_world(Mode::processes, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
        data.emplace(100, 1);
        reduce(data->data(), 100, comm, device.stream());
        device.synchronize();
        if (rank == 1) ::_exit(7);
        ncclResult_t state = reduce(data->data(), 100, comm, device.stream());
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (state == ncclSuccess && std::chrono::steady_clock::now() < limit) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          ncclCommGetAsyncError(comm, &state);
        }
        return fails(state, ncclRemoteError, {"rank 1"});
      });
  CHECK(results[0] == "");
}

TEST_CASE("on a device the vendor's library is one of the entrants whose times are measured") {
  char folder[] = "/tmp/sccl-vendor-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const Environment environment(
      Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"SCCL_TUNE", "online"}, {"SCCL_CACHE_DIR", folder}});
  CHECK(failures(run_device_world(Mode::threads, 2, [](int, ncclComm_t comm, const OnDevice& device) -> std::string {
          const DeviceInts data(100, 0);
          for (int repeat = 0; repeat < 300; ++repeat)
            if (const ncclResult_t result = reduce(data.data(), 100, comm, device.stream()); result != ncclSuccess)
              return describe("AllReduce", result);
          device.synchronize();
          return "";
        })) == "");
  CHECK(served_calls() > 0);
}
