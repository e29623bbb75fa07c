// Windows, PutSignal, Signal and WaitSignal on devices: in the order of streams, between threads, processes and
// devices.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "gpu/failures.h"
#include "gpu/windows.h"

using namespace api_test;
using namespace gpu_test;

TEST_CASE("a put arrives before its signal on a device") {
  for (const bool of_library : {true, false})
    for (const bool vmm : {true, false})
      for (const Mode mode : modes())
        for (const int devices : {1, 2}) {
          INFO(name(mode) << (of_library ? " ncclMemAlloc" : " cudaMalloc") << (vmm ? " vmm " : " ipc ") << devices);
          fake_cuda_set_vmm(vmm ? 1 : 0);
          CHECK(failures(run_device_world(
                    mode, 3,
                    [&](int rank, ncclComm_t comm, const OnDevice& device) {
                      std::string wrong = put_around(rank, 3, comm, device, of_library, 7);
                      return wrong.empty() ? put_around(rank, 3, comm, device, of_library, 100000) : wrong;
                    },
                    devices)) == "");
        }
  fake_cuda_set_vmm(1);
}

TEST_CASE("signals reach ranks through host memory, where there is no window") {
  ::setenv("NCCL_P2P_DISABLE", "1", 1);
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            Buffer inbox(10, true);
            ncclWindow_t window = reinterpret_cast<ncclWindow_t>(&inbox);
            if (ncclCommWindowRegister(comm, inbox.data, 40, &window, 0) != ncclSuccess) return told();
            if (window != nullptr) return "a window that nobody can write into";
            for (int i = 0; i < 20; ++i)
              if (ncclSignal(1 - rank, 5, 2, 0, comm, device.stream()) != ncclSuccess) return told();
            ncclWaitSignalDesc_t wait[2] = {{12, 1 - rank, 5, 2}, {8, 1 - rank, 5, 2}};
            if (ncclWaitSignal(2, wait, comm, device.stream()) != ncclSuccess) return told();
            device.synchronize();
            return "";
          })) == "");
  ::unsetenv("NCCL_P2P_DISABLE");
}

TEST_CASE("a buffer that cannot be shared between processes gives no window to anybody", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  CHECK(failures(
            run_device_world(Mode::processes, 3, [](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
              Buffer fine(10, true);
              std::vector<int> host(10);
              ncclWindow_t window = nullptr;
              void* const base = rank == 1 ? static_cast<void*>(host.data()) : fine.data;
              if (ncclCommWindowRegister(comm, base, 40, &window, 0) != ncclSuccess) return told();
              if (window != nullptr) return "a window";
              return put_around(rank, 3, comm, device, true, 10);  // the next one works
            })) == "");
}

TEST_CASE("windows of different sizes are refused on a device") {
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
            Buffer buffer(10, true);
            ncclWindow_t window = nullptr;
            const auto result = ncclCommWindowRegister(comm, buffer.data, rank == 0 ? 4 : 8, &window, 0);
            return result == ncclInvalidArgument && contains(told(), "one size") ? "" : "told: " + told();
          })) == "");
}

TEST_CASE("memory that its program opened to one device is no window of ranks on other devices of the process") {
  constexpr unsigned long kBytes = 65536;
  for (const bool open : {false, true})
    CHECK(failures(run_device_world(
              Mode::threads, 2,
              [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
                unsigned long long handle = 0, address = 0;
                const int properties[8] = {1, 1, 1, rank};
                cuMemCreate(&handle, kBytes, properties, 0);
                cuMemAddressReserve(&address, kBytes, 0, 0, 0);
                cuMemMap(address, kBytes, 0, handle, 0);
                for (const int device : {rank, 1 - rank}) {
                  const int access[3] = {1, device, 3};
                  if (device == rank || open) cuMemSetAccess(address, kBytes, access, 1);
                }
                ncclWindow_t window = nullptr;
                std::string wrong;
                if (ncclCommWindowRegister(comm, reinterpret_cast<void*>(address), kBytes, &window, 0) != ncclSuccess)
                  wrong = told();
                if ((window != nullptr) != open) wrong += open ? " no window" : " a window";
                if (window != nullptr && ncclCommWindowDeregister(comm, window) != ncclSuccess) wrong += told();
                cuMemUnmap(address, kBytes);
                cuMemAddressFree(address, kBytes);
                cuMemRelease(handle);
                return wrong;
              },
              2)) == "");
}

TEST_CASE("one group holds puts, calls and waits of several ranks on one stream") {
  const Setting path("SCCL_DEVICE_PATH", GENERATE("auto", "streams"));
  const OnDevice device;
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, std::vector<int>{0, 0}.data()) == ncclSuccess);
  {
    Buffer first(1, true), second(1, true);
    int* const inbox[2] = {first.data, second.data};
    int value[2] = {10, 11}, sum[2] = {1, 2};
    ncclWindow_t windows[2] = {};
    ncclGroupStart();
    for (int rank = 0; rank < 2; ++rank)
      CHECK(ncclCommWindowRegister(comms[rank], inbox[rank], 4, &windows[rank], 0) == ncclSuccess);
    REQUIRE(ncclGroupEnd() == ncclSuccess);
    ncclGroupStart();
    for (int rank = 0; rank < 2; ++rank) {
      ncclWaitSignalDesc_t twice[2] = {{1, 1 - rank, 0, 0}, {1, 1 - rank, 0, 0}};
      CHECK(ncclWaitSignal(2, twice, comms[rank], device.stream()) == ncclSuccess);
      CHECK(ncclAllReduce(&sum[rank], &sum[rank], 1, ncclInt32, ncclSum, comms[rank], device.stream()) == ncclSuccess);
      CHECK(ncclPutSignal(&value[rank], 1, ncclInt32, 1 - rank, windows[rank], 0, 0, 0, 0, comms[rank],
                          device.stream()) == ncclSuccess);
      CHECK(ncclSignal(1 - rank, 0, 0, 0, comms[rank], device.stream()) == ncclSuccess);
    }
    CHECK(ncclGroupEnd() == ncclSuccess);
    device.synchronize();
    CHECK(*inbox[0] == 11);
    CHECK(*inbox[1] == 10);
    CHECK(sum[0] == 3);
    CHECK(sum[1] == 3);
  }
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("captured puts and waits can be replayed") {
  CHECK(
      failures(run_device_world(Mode::threads, 2, [](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
        Buffer inbox(1, true), mine(1, true);
        ncclWindow_t window = nullptr;
        if (ncclCommWindowRegister(comm, inbox.data, 4, &window, 0) != ncclSuccess) return told();
        cuStreamBeginCapture_v2(device.stream(), 1);
        ncclWaitSignalDesc_t wait{1, 1 - rank, 0, 0};
        const bool captured = ncclPutSignal(mine.data, 1, ncclInt32, 1 - rank, window, 0, 0, 0, 0, comm,
                                            device.stream()) == ncclSuccess &&
                              ncclWaitSignal(1, &wait, comm, device.stream()) == ncclSuccess;
        void *graph = nullptr, *executable = nullptr;
        cuStreamEndCapture(device.stream(), &graph);
        if (!captured) return told();
        cuGraphInstantiateWithFlags(&executable, graph, 0);
        std::string wrong;
        for (int round = 1; round < 5; ++round) {
          *mine.data = 10 * round + rank;
          cuGraphLaunch(executable, device.stream());
          device.synchronize();
          if (*inbox.data != 10 * round + 1 - rank) wrong = "round " + std::to_string(round);
          // What was read may be overwritten now: told by calls that are not captured.
          ncclWaitSignalDesc_t read{1, 1 - rank, 1, 0};
          ncclSignal(1 - rank, 1, 0, 0, comm, device.stream());
          ncclWaitSignal(1, &read, comm, device.stream());
        }
        cuGraphExecDestroy(executable);
        cuGraphDestroy(graph);
        return wrong;
      })) == "");
}

TEST_CASE("a rank that waits for a signal of an aborted rank is told so") {
  const auto texts = run_bare_world(Mode::threads, 2, [](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
    std::string text;
    if (rank == 0) {
      ncclWaitSignalDesc_t wait{1, 1, 0, 0};
      if (ncclWaitSignal(1, &wait, comm, device.stream()) != ncclSuccess) text = told();
      for (int i = 0; i < 3000 && text.empty(); ++i) {
        ncclResult_t state = ncclSuccess;
        ncclCommGetAsyncError(comm, &state);
        if (state != ncclSuccess) text = ncclGetLastError(comm);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    ncclCommAbort(comm);
    device.synchronize();
    return text;
  });
  INFO(texts[0]);
  CHECK(contains(texts[0], "rank 1"));
  CHECK(contains(texts[0], "aborted"));
  CHECK(contains(texts[0], "WaitSignal"));
}

TEST_CASE("mappings of windows are given back") {
  { const OnDevice warm_up; }
  const std::string before = fake_cuda_live_text();
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            for (int i = 0; i < 2; ++i)
              if (std::string wrong = put_around(rank, 2, comm, device, true, 10); !wrong.empty()) return wrong;
            return "";
          })) == "");
  CHECK(std::string(fake_cuda_live_text()) == before);
}

TEST_CASE("one thread drives ranks of a device whose signals share a stream, and whose waits do not") {
  const Setting limit("SCCL_TIMEOUT_MS", "5000");
  const OnDevice device;
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, std::vector<int>{0, 0}.data()) == ncclSuccess);
  void *shared = nullptr, *own[2] = {nullptr, nullptr};
  for (void** stream : {&shared, &own[0], &own[1]}) cuStreamCreate(stream, 1);
  constexpr int kSignals[2] = {1, 3};
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < kSignals[rank]; ++i)
      CHECK(ncclSignal(1 - rank, 0, 0, 0, comms[rank], static_cast<cudaStream_t>(shared)) == ncclSuccess);
    ncclWaitSignalDesc_t wait{kSignals[1 - rank], 1 - rank, 0, 0};
    CHECK(ncclWaitSignal(1, &wait, comms[rank], static_cast<cudaStream_t>(own[rank])) == ncclSuccess);
  }
  const ncclResult_t ended = ncclGroupEnd();
  INFO(told());
  CHECK(ended == ncclSuccess);
  for (void* stream : {own[0], own[1], shared}) cuStreamSynchronize(stream);
  for (ncclComm_t comm : comms) {
    ncclResult_t error = ncclSuccess;
    CHECK(ncclCommGetAsyncError(comm, &error) == ncclSuccess);
    CHECK(error == ncclSuccess);
    ncclCommDestroy(comm);
  }
  for (void* stream : {own[0], own[1], shared}) cuStreamDestroy_v2(stream);
}

TEST_CASE("waits of a group on two streams hold both of them") {
  std::atomic<bool> looked{false};
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) {
          if (rank == 1) {
            while (!looked) std::this_thread::yield();
            std::string wrong;
            for (int index = 0; index < 2; ++index)
              if (ncclSignal(0, index, 0, 0, comm, device.stream()) != ncclSuccess) wrong += told();
            device.synchronize();
            return wrong;
          }
          void* other = nullptr;
          cuStreamCreate(&other, 1);
          void* const streams[2] = {device.stream(), other};
          void* passed[2] = {nullptr, nullptr};
          for (void*& event : passed) cuEventCreate(&event, 0);
          std::string wrong;
          ncclGroupStart();
          for (int index = 0; index < 2; ++index) {
            ncclWaitSignalDesc_t wait{1, 1, index, 0};
            if (ncclWaitSignal(1, &wait, comm, static_cast<cudaStream_t>(streams[index])) != ncclSuccess)
              wrong += told();
          }
          if (ncclGroupEnd() != ncclSuccess) wrong += told();
          for (int i = 0; i < 2; ++i) cuEventRecord(passed[i], streams[i]);
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          for (int i = 0; i < 2; ++i)
            if (cuEventQuery(passed[i]) == 0) wrong += "stream " + std::to_string(i) + " does not wait. ";
          looked = true;
          for (int i = 0; i < 2; ++i) {
            cuStreamSynchronize(streams[i]);
            if (cuEventQuery(passed[i]) != 0) wrong += "stream " + std::to_string(i) + " waits for ever. ";
            cuEventDestroy_v2(passed[i]);
          }
          cuStreamDestroy_v2(other);
          return wrong;
        })) == "");
}
