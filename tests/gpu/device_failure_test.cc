// What goes wrong on a device ends with an error on every rank, and no kernel keeps waiting.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>

#include "gpu/failures.h"
#include "gpu/logged.h"
#include "stage.h"

using namespace api_test;
using namespace gpu_test;

TEST_CASE("ranks whose calls differ are told both calls") {
  for (const std::size_t count : {std::size_t{4}, std::size_t{100000}}) {
    const auto told = run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) {
      std::vector<float> data(count + 1);
      if (std::string wrong = reduce(comm, device.stream(), data, count + static_cast<std::size_t>(rank));
          !wrong.empty())
        return wrong;
      std::string text = async_error(comm);
      device.synchronize();  // the kernel has ended
      return text;
    });
    for (const std::string& text : told) {
      INFO(text);
      CHECK(contains(text, "AllReduce(count=" + std::to_string(count) + ","));
      CHECK(contains(text, "AllReduce(count=" + std::to_string(count + 1) + ","));
    }
  }
}

TEST_CASE("abort ends a kernel that waits for a rank which never calls") {
  const sccl_test::Stage called;
  const auto told = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::vector<float> data(1000);
    std::string wrong = rank == 0 ? reduce(comm, device.stream(), data, data.size()) : "";
    if (rank == 0) called.next();
    called.await(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (ncclCommAbort(comm) != ncclSuccess) wrong += ncclGetLastError(nullptr);
    device.synchronize();
    return wrong;
  });
  CHECK(failures(told) == "");
}

TEST_CASE("an aborted rank is named by the ranks that wait for it") {
  const auto told = run_bare_world(Mode::threads, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::vector<float> data(1000);
    std::string text;
    if (rank != 2) {
      text = reduce(comm, device.stream(), data, data.size());
      text += async_error(comm);
    }
    ncclCommAbort(comm);
    device.synchronize();
    return text;
  });
  for (int rank : {0, 1}) {
    INFO(told[static_cast<std::size_t>(rank)]);
    CHECK(contains(told[static_cast<std::size_t>(rank)], "rank 2"));
    CHECK(contains(told[static_cast<std::size_t>(rank)], "aborted"));
  }
}

// Those that have left are asked about in turn, and the answer about one must not wipe out that about another one.
TEST_CASE("a rank that left is named by the rank that waits for it, also where others have left, too") {
  const auto told = run_bare_world(Mode::threads, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    if (rank != 0) return ncclCommDestroy(comm) == ncclSuccess ? "" : ncclGetLastError(nullptr);
    std::vector<float> data(1000);
    // Refused, perhaps, when the other ranks are gone already.
    std::string text = ncclRecv(data.data(), data.size(), ncclFloat, 1, comm, device.stream()) == ncclSuccess
                           ? async_error(comm)
                           : ncclGetLastError(comm);
    ncclCommAbort(comm);
    device.synchronize();
    return text;
  });
  INFO(told[0]);
  CHECK(contains(told[0], "rank 1 ("));
  CHECK(contains(told[0], "destroyed its communicator"));
  CHECK(told[1] + told[2] == "");
}

TEST_CASE("a killed rank is named by the survivors", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const auto told = run_bare_world(Mode::processes, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::vector<float> data(1000);
    if (std::string wrong = reduce(comm, device.stream(), data, data.size()); !wrong.empty()) return wrong;
    device.synchronize();
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    reduce(comm, device.stream(), data, data.size());
    std::string text = async_error(comm);
    device.synchronize();
    ncclCommAbort(comm);
    return text;
  });
  for (int rank : {0, 2}) {
    INFO(told[static_cast<std::size_t>(rank)]);
    CHECK(contains(told[static_cast<std::size_t>(rank)], "rank 1"));
    CHECK(contains(told[static_cast<std::size_t>(rank)], "ended"));
  }
}

TEST_CASE("a call's own time limit ends with that call, and the next call may wait for longer") {
  for (const char* const path : {"kernels", "streams"}) {
    INFO(path);
    const Setting by("SCCL_DEVICE_PATH", path);
    CHECK(failures(
              run_device_world(Mode::threads, 2, [](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
                ncclConfigExt_t limit{};
                limit.key.vendorId = SCCL_CONFIG_VENDOR;
                limit.key.optionId = SCCL_CONFIG_TIMEOUT_MS;
                limit.val.i = 1000;
                ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
                config.ext = &limit;
                std::vector<float> data(1000, 1);
                // What the first call prepares does not count, and both ranks come from it together.
                if (std::string wrong = reduce(comm, device.stream(), data, data.size()); !wrong.empty()) return wrong;
                device.synchronize();
                if (ncclAllReduceConfig(data.data(), data.data(), data.size(), ncclFloat, ncclSum, comm,
                                        device.stream(), &config) != ncclSuccess)
                  return told();
                device.synchronize();
                if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1800));
                if (std::string wrong = reduce(comm, device.stream(), data, data.size()); !wrong.empty()) return wrong;
                device.synchronize();
                ncclResult_t state = ncclSuccess;
                ncclCommGetAsyncError(comm, &state);
                return state == ncclSuccess ? "" : ncclGetLastError(comm);
              })) == "");
  }
}

TEST_CASE("a call after a failure throws its reason") {
  const auto told = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::vector<float> data(101);
    reduce(comm, device.stream(), data, 100 + static_cast<std::size_t>(rank));
    async_error(comm);
    std::string text = reduce(comm, device.stream(), data, 100);
    ncclCommAbort(comm);
    return text;
  });
  for (const std::string& text : told) CHECK(contains(text, "count=101"));
}

TEST_CASE("memory that the device cannot use is refused before anything is enqueued") {
  CHECK(failures(run_device_world(Mode::threads, 1, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
          fake_cuda_set_any_memory(0);
          std::vector<float> host(10);
          const std::string text = reduce(comm, device.stream(), host, 10);
          unsigned long long memory = 0;
          cuMemAlloc_v2(&memory, 40);
          auto* const data = reinterpret_cast<float*>(memory);
          const ncclResult_t fine = ncclAllReduce(data, data, 10, ncclFloat, ncclSum, comm, device.stream());
          device.synchronize();
          cuMemFree_v2(memory);
          fake_cuda_set_any_memory(1);
          if (fine != ncclSuccess) return ncclGetLastError(nullptr);
          return contains(text, "cudaMalloc") ? "" : "told: " + text;
        })) == "");
}

// The work of a group on the host comes after its launches on devices, and must not hide their failure.
TEST_CASE("of a group on a device and on the host the first error is told") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const auto told = run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    ncclComm_t on_host = nullptr;
    if (ncclCommInitRank(&on_host, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    ncclUniqueId next{};
    if (rank == 0) ncclGetUniqueId(&next);
    if (ncclBroadcast(&next, &next, sizeof next, ncclUint8, 0, on_host, nullptr) != ncclSuccess)
      return ncclGetLastError(nullptr);
    const OnDevice device;
    ncclComm_t on_device = nullptr;
    if (ncclCommInitRank(&on_device, 2, next, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::vector<float> data(100);
    fake_cuda_fail("cuLaunchKernel", 0, 100, 700);
    ncclGroupStart();
    ncclAllReduce(data.data(), data.data(), 10, ncclFloat, ncclSum, on_device, device.stream());
    // The ranks disagree.
    ncclAllReduce(data.data(), data.data(), 10 + static_cast<std::size_t>(rank), ncclFloat, ncclSum, on_host, nullptr);
    const ncclResult_t result = ncclGroupEnd();
    const std::string text = ncclGetLastError(nullptr);
    fake_cuda_fail("cuLaunchKernel", 0, 0, 0);
    ncclCommAbort(on_device);
    ncclCommAbort(on_host);
    return result == ncclUnhandledCudaError ? "" : "result " + std::to_string(result) + ": " + text;
  });
  CHECK(failures(told) == "");
}

TEST_CASE("a rank without device memory tells all ranks, and none hangs", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const auto told = run_bare_world(Mode::processes, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    if (rank == 1) fake_cuda_fail("cuMemCreate", 0, 1, 2);
    ncclComm_t comm = nullptr;
    return ncclCommInitRank(&comm, 3, id, rank) == ncclSuccess ? "succeeded" : ncclGetLastError(nullptr);
  });
  for (const std::string& text : told) {
    INFO(text);
    CHECK(contains(text, "out of memory"));
    CHECK(contains(text, "free device memory"));
  }
}

TEST_CASE("what a rank sent before it left in peace arrives, however late the receiver's kernel begins") {
  constexpr auto kLate = std::chrono::milliseconds(1600);  // longer than the patience with who has left
  // Rank 1 leaves only when rank 0's call is in its stream: a rank that leaves frees memory once no call is in flight,
  // which waits for the stream, and the thread that is to let the stream go on would wait for that.
  std::atomic<bool> submitted{false};  // stored with release by rank 0, loaded with acquire by rank 1
  const auto told = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::vector<float> data(10, static_cast<float>(rank + 1));
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));  // rank 0's kernel waits for it
    std::string wrong = reduce(comm, device.stream(), data, data.size());
    device.synchronize();
    unsigned long long begin = 0;  // a word of the device, which this one shares with the host
    {
      const Spared here;
      cuMemAlloc_v2(&begin, sizeof(unsigned));
    }
    __atomic_store_n(reinterpret_cast<unsigned*>(begin), 0, __ATOMIC_RELEASE);
    if (rank == 0 && cuStreamWaitValue32_v2(device.stream(), begin, 1, /*equal*/ 1) != 0) return "no wait";
    if (rank == 1) data.assign(10, 7);
    const float before = data[0];
    if (ncclBroadcast(data.data(), data.data(), data.size(), ncclFloat, 1, comm, device.stream()) != ncclSuccess)
      wrong += ncclGetLastError(nullptr);
    if (rank == 1)
      while (!submitted.load(std::memory_order_acquire)) std::this_thread::yield();
    if (rank == 0) {
      submitted.store(true, std::memory_order_release);
      std::this_thread::sleep_for(kLate);
      if (data[0] != before) wrong += "the kernel did not wait";
      __atomic_store_n(reinterpret_cast<unsigned*>(begin), 1, __ATOMIC_RELEASE);
    }
    device.synchronize();
    if (data[0] != 7) wrong += "nothing arrived";
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(comm, &state);
    if (state != ncclSuccess) wrong += ncclGetLastError(comm);
    if (ncclCommDestroy(comm) != ncclSuccess) wrong += ncclGetLastError(nullptr);
    cuMemFree_v2(begin);
    return wrong;
  });
  CHECK(failures(told) == "");
}

TEST_CASE("a program that ends while a kernel waits is not told that a kernel went wrong, and may abort",
          "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  int asked[2];  // a byte tells that rank 0 has asked
  REQUIRE(::pipe(asked) == 0);
  const auto told = run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::vector<float> data(1000);
    char byte = 0;
    if (rank == 1) {  // it never calls
      const bool waited = ::read(asked[0], &byte, 1) == 1;
      ncclCommAbort(comm);
      return waited ? "" : "no pipe";
    }
    std::string wrong = reduce(comm, device.stream(), data, data.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the kernel runs
    fake_cuda_end();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the watch asks
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(comm, &state);
    if (state != ncclSuccess) wrong += ncclGetLastError(comm);
    if (::write(asked[1], &byte, 1) != 1) wrong += "no pipe";
    ncclCommAbort(comm);
    return wrong;
  });
  CHECK(failures(told) == "");
  for (const int end : asked) ::close(end);
}

TEST_CASE("a rank without a device beside one with a device is refused on both", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const auto told = run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    if (rank == 1) {
      cuCtxSetCurrent(nullptr);
      cuDevicePrimaryCtxRelease_v2(0);
    }
    ncclComm_t comm = nullptr;
    return ncclCommInitRank(&comm, 2, id, rank) == ncclSuccess ? "succeeded" : ncclGetLastError(nullptr);
  });
  for (const std::string& text : told) CHECK(contains(text, "cudaSetDevice"));
}

TEST_CASE("beside a driver that is too old the host serves", "[processes]") {
  // What a process has found once it keeps: only when this test is the first of its process can it tell.
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  if (fake_cuda_kernels() > 0) return sccl_test::skip(kNotFirst);
  const auto served = run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    fake_cuda_set_version(11020);
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    int value = rank + 1;
    if (ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr) != ncclSuccess)
      return ncclGetLastError(nullptr);
    ncclCommDestroy(comm);
    return value == 3 && fake_cuda_kernels() == 0 ? "" : "wrong sum, or a kernel ran";
  });
  CHECK(failures(served) == "");
}
