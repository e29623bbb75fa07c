// Ranks of one process: what one that gives up owes the others' kernels, and two that are given one stream.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "gpu/failures.h"
#include "stage.h"

using namespace api_test;
using namespace gpu_test;

namespace {

void await(const std::atomic<int>& stage, int wanted) {
  while (stage.load() < wanted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

constexpr float kMine = -7;

bool all_mine(const std::vector<float>& data) {
  return std::count(data.begin(), data.end(), kMine) == static_cast<std::ptrdiff_t>(data.size());
}

}  // namespace

TEST_CASE("a rank that calls after another was aborted does not touch that one's buffer") {
  std::atomic<int> stage{0};
  const auto texts = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
    std::vector<float> data(50000, 1);
    std::string text;
    if (rank == 0) {
      text = reduce(comm, device.stream(), data, data.size());
      ncclCommAbort(comm);
      std::fill(data.begin(), data.end(), kMine);
      stage = 1;
      await(stage, 2);
      return text + (all_mine(data) ? "" : "the buffer was written after the abort");
    }
    await(stage, 1);
    text = reduce(comm, device.stream(), data, data.size());
    device.synchronize();
    stage = 2;
    ncclCommAbort(comm);
    return text;
  });
  CHECK(texts[0] == "");
  INFO(texts[1]);
  CHECK(contains(texts[1], "rank 0"));
}

TEST_CASE("an abort returns after the kernels that use the buffer have ended") {
  std::atomic<int> stage{0};
  const auto texts = run_bare_world(Mode::threads, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return told();
    std::vector<float> data(50000, 1);
    std::string text;
    if (rank < 2) text = reduce(comm, device.stream(), data, data.size());  // the third never comes
    ++stage;
    await(stage, 3);
    if (rank == 0) {
      ncclCommAbort(comm);
      std::fill(data.begin(), data.end(), kMine);
    }
    ++stage;
    if (rank == 2) {
      await(stage, 6);
      text = reduce(comm, device.stream(), data, data.size());
      if (!contains(text, "rank 0") && !contains(text, "rank 1"))
        text = "told: " + text;
      else
        text = "";
    }
    ++stage;
    if (rank == 0) {
      await(stage, 9);
      if (!all_mine(data)) text += "the buffer was written after the abort";
    } else {
      ncclCommAbort(comm);
      device.synchronize();
    }
    return text;
  });
  CHECK(failures(texts) == "");
}

TEST_CASE("an error is told when the buffers are free again") {
  std::atomic<int> stage{0};
  const auto texts = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
    std::vector<float> data(50000 + static_cast<std::size_t>(rank), 1);  // counts differ
    std::string text = reduce(comm, device.stream(), data, data.size());
    const std::string error = async_error(comm);
    std::fill(data.begin(), data.end(), kMine);
    ++stage;
    await(stage, 2);
    device.synchronize();
    if (!contains(error, "count=50001")) text += "told: " + error;
    if (!all_mine(data)) text += "the buffer was written after the error";
    ncclCommAbort(comm);
    return text;
  });
  CHECK(failures(texts) == "");
}

TEST_CASE("two ranks that are given one stream outside a group are told so") {
  const OnDevice device;
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, std::vector<int>{0, 0}.data()) == ncclSuccess);
  std::vector<float> data[2] = {std::vector<float>(5000, 1), std::vector<float>(5000, 2)};
  for (int rank = 0; rank < 2; ++rank) CHECK(reduce(comms[rank], device.stream(), data[rank], data[rank].size()) == "");
  const std::string text = async_error(comms[0]);
  INFO(text);
  CHECK(contains(text, "ranks 0 and 1"));
  CHECK(contains(text, "ncclGroupStart"));
  device.synchronize();  // nothing hangs
  for (ncclComm_t comm : comms) CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("the default streams of two threads, which have one handle, are not taken for one stream") {
  fake_cuda_set_connections(32);
  void* const per_thread = reinterpret_cast<void*>(2);
  const sccl_test::Stage ended;
  const auto texts = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
    std::vector<float> data(100, 1);
    unsigned* word = nullptr;
    {
      const Spared spared;
      cuMemHostAlloc(reinterpret_cast<void**>(&word), 64, 3);
    }
    std::string text;
    for (int round = 0; round < 2; ++round) {  // one rank's stream is late, then the other's
      *word = 0;
      if (rank == round) cuStreamWaitValue32_v2(per_thread, reinterpret_cast<unsigned long long>(word), 1, 1);
      text += reduce(comm, static_cast<cudaStream_t>(per_thread), data, data.size());
      std::this_thread::sleep_for(std::chrono::milliseconds(700));  // longer than a kernel waits before it asks why
      __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
      cuStreamSynchronize(per_thread);
    }
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(comm, &state);
    if (state != ncclSuccess) text += ncclGetLastError(comm);
    if (data[0] != 4) text += "wrong sum";
    ended.next();
    ended.await(2);
    ncclCommAbort(comm);
    const Spared spared;
    cuMemFreeHost(word);
    return text;
  });
  CHECK(failures(texts) == "");
  fake_cuda_set_connections(8);
}

TEST_CASE("ranks on one stream whose calls do not wait for one another are left alone") {
  const OnDevice device;
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, std::vector<int>{0, 0}.data()) == ncclSuccess);
  int value[2] = {5, 0};
  for (int round = 0; round < 3; ++round) {
    CHECK(ncclSend(&value[0], 1, ncclInt32, 1, comms[0], device.stream()) == ncclSuccess);
    CHECK(ncclRecv(&value[1], 1, ncclInt32, 0, comms[1], device.stream()) == ncclSuccess);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  device.synchronize();
  CHECK(value[1] == 5);
  ncclResult_t state = ncclInternalError;
  CHECK(ncclCommGetAsyncError(comms[0], &state) == ncclSuccess);
  CHECK(state == ncclSuccess);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

// For whom a kernel waited is known for longer than it waits.
TEST_CASE("ranks on one stream may both wait for the program, also after one has waited for the other") {
  const OnDevice device;
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, std::vector<int>{0, 0}.data()) == ncclSuccess);
  unsigned long long ready = 0;
  REQUIRE(cuMemAlloc_v2(&ready, sizeof(unsigned)) == 0);
  __atomic_store_n(reinterpret_cast<unsigned*>(ready), 0, __ATOMIC_RELEASE);
  void* other = nullptr;
  REQUIRE(cuStreamCreate(&other, 1) == 0);
  int value[2] = {0, 7};
  CHECK(ncclRecv(&value[0], 1, ncclInt32, 1, comms[0], device.stream()) == ncclSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  CHECK(ncclSend(&value[1], 1, ncclInt32, 0, comms[1], static_cast<cudaStream_t>(other)) == ncclSuccess);
  device.synchronize();
  cuStreamSynchronize(other);
  CHECK(cuStreamWaitValue32_v2(device.stream(), ready, 1, /*equal*/ 1) == 0);
  CHECK(ncclSend(&value[0], 1, ncclInt32, 1, comms[0], device.stream()) == ncclSuccess);
  CHECK(ncclRecv(&value[1], 1, ncclInt32, 0, comms[1], device.stream()) == ncclSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  value[1] = 0;
  __atomic_store_n(reinterpret_cast<unsigned*>(ready), 1, __ATOMIC_RELEASE);
  device.synchronize();
  CHECK(value[1] == 7);
  for (ncclComm_t comm : comms) {
    ncclResult_t state = ncclInternalError;
    CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
    INFO(ncclGetLastError(comm));
    CHECK(state == ncclSuccess);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
  }
  cuStreamDestroy_v2(other);
  CHECK(cuMemFree_v2(ready) == 0);
}

TEST_CASE("a launch that the driver refuses leaves nothing to wait for") {
  const auto texts = run_bare_world(Mode::threads, 1, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 1, id, rank) != ncclSuccess) return told();
    std::vector<float> data(10, 1);
    fake_cuda_fail("cuLaunchKernel", 0, 1, 999);
    std::string text = reduce(comm, device.stream(), data, data.size());
    ncclCommDestroy(comm);
    return contains(text, "unknown error") ? "" : "told: " + text;
  });
  fake_cuda_reset_calls();
  CHECK(failures(texts) == "");
}
