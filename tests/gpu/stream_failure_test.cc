// What goes wrong in calls that streams order ends with an error on every rank, no stream keeps waiting, and nobody is
// given what a released stream copied.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>

#include "gpu/captured.h"
#include "gpu/windows.h"
#include "stage.h"

using namespace api_test;
using namespace gpu_test;
using sccl_test::Stage;

namespace {

// When this returns the stream is at rest: buffers may go.
std::string settled_error(ncclComm_t comm, const OnDevice& device) {
  const std::string text = async_error(comm);
  device.synchronize();
  return text;
}

std::vector<std::string> run(Mode mode, int ranks,
                             const std::function<std::string(int, ncclComm_t&, const OnDevice&)>& body) {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  return run_bare_world(mode, ranks, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::string text = body(rank, comm, device);
    if (comm != nullptr) ncclCommAbort(comm);
    return text;
  });
}

void abort(ncclComm_t& comm, const OnDevice& device) {
  ncclCommAbort(comm);
  comm = nullptr;
  device.synchronize();
}

// While it lives, streams of failed calls are let go beside those of ranks that do not know of it yet.
class StreamsLetGo {
 public:
  StreamsLetGo() { fake_cuda_let_streams_go(1); }
  ~StreamsLetGo() { fake_cuda_let_streams_go(0); }
  StreamsLetGo(const StreamsLetGo&) = delete;
  StreamsLetGo& operator=(const StreamsLetGo&) = delete;
};

}  // namespace

TEST_CASE("ranks whose calls differ are told both calls, in calls that streams order") {
  const StreamsLetGo let_go;
  for (const std::size_t count : {std::size_t{4}, std::size_t{100000}})
    for (const std::string& text : run(Mode::threads, 2, [&](int rank, ncclComm_t&comm, const OnDevice&device) {
           std::vector<float> data(count + 1);
           const std::string wrong = reduce(comm, device.stream(), data, count + static_cast<std::size_t>(rank));
           return wrong.empty() ? settled_error(comm, device) : wrong;
         })) {
      INFO(text);
      CHECK(contains(text, "AllReduce(count=" + std::to_string(count) + ","));
      CHECK(contains(text, "AllReduce(count=" + std::to_string(count + 1) + ","));
    }
}

TEST_CASE("roots that differ are told although no message is exchanged") {
  for (const std::string& text :
       run(Mode::threads, 2, [&](int rank, ncclComm_t&comm, const OnDevice&device) -> std::string {
         std::vector<float> data(100);
         if (ncclBroadcast(data.data(), data.data(), 100, ncclFloat, 1 - rank, comm, device.stream()) != ncclSuccess)
           return ncclGetLastError(nullptr);
         return settled_error(comm, device);
       })) {
    INFO(text);
    CHECK(contains(text, "root=0"));
    CHECK(contains(text, "root=1"));
  }
}

TEST_CASE("transfers whose sizes differ end with an error") {
  const auto told = run(Mode::threads, 2, [&](int rank, ncclComm_t& comm, const OnDevice& device) -> std::string {
    std::vector<float> data(200);
    const ncclResult_t result = rank == 0 ? ncclSend(data.data(), 100, ncclFloat, 1, comm, device.stream())
                                          : ncclRecv(data.data(), 101, ncclFloat, 0, comm, device.stream());
    if (result != ncclSuccess) return ncclGetLastError(nullptr);
    // The message fits into a slot: only the receiver need notice.
    if (rank == 1) return settled_error(comm, device);
    device.synchronize();
    return "";
  });
  INFO(told[1]);
  CHECK(contains(told[1], "counts of Send and Recv"));
}

TEST_CASE("abort ends a stream that waits for a rank which never calls") {
  for (const Mode mode : modes()) {
    const Setting path("SCCL_DEVICE_PATH", "streams");
    const Stage called;
    const auto told = run_bare_world(mode, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
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
}

TEST_CASE("an aborted rank is named by the ranks that wait for it, and they take nothing that it passed on") {
  const StreamsLetGo let_go;
  const Setting algorithm("SCCL_ALGO", "ring");
  for (const Mode mode : modes()) {
    const Stage called, failed;
    const auto told = run(mode, 4, [&](int rank, ncclComm_t& comm, const OnDevice& device) -> std::string {
      std::vector<float> data(4000, 1);
      if (rank == 0) {  // stays idle until the others have failed
        failed.await(2);
        return "";
      }
      std::string text = reduce(comm, device.stream(), data, data.size());
      called.next();
      if (rank == 1) {
        called.await(3);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // what goes on by itself does
        abort(comm, device);
        return text;
      }
      // By the time that the stream has ended, for whatever reason, the error is known.
      device.synchronize();
      ncclResult_t state = ncclSuccess;
      ncclCommGetAsyncError(comm, &state);
      text += state == ncclSuccess ? "the call ended as if it had succeeded" : ncclGetLastError(comm);
      failed.next();
      failed.await(2);
      return text;
    });
    for (const int rank : {2, 3}) {
      INFO(told[static_cast<std::size_t>(rank)]);
      CHECK(contains(told[static_cast<std::size_t>(rank)], "rank 1"));
      CHECK(contains(told[static_cast<std::size_t>(rank)], "aborted"));
    }
  }
}

TEST_CASE("a stream that waits too long ends with the rank that it waits for") {
  const Setting limit("SCCL_TIMEOUT_MS", "300");
  const Stage over;
  const auto told = run(Mode::threads, 2, [&](int rank, ncclComm_t& comm, const OnDevice& device) -> std::string {
    std::vector<float> data(100000);
    if (rank == 1) {
      over.await(1);
      return "";
    }
    std::string wrong = reduce(comm, device.stream(), data, data.size());
    if (wrong.empty()) wrong = settled_error(comm, device);
    over.next();
    return wrong;
  });
  INFO(told[0]);
  CHECK(contains(told[0], "waiting for rank 1"));
}

TEST_CASE("revoking a communicator ends the stream that waits") {
  const Stage called;
  const auto told = run(Mode::threads, 2, [&](int rank, ncclComm_t& comm, const OnDevice& device) -> std::string {
    std::vector<float> data(1000);
    std::string wrong = rank == 0 ? reduce(comm, device.stream(), data, data.size()) : "";
    if (rank == 0) called.next();
    called.await(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (ncclCommRevoke(comm, 0) != ncclSuccess) wrong += ncclGetLastError(nullptr);
    device.synchronize();
    return wrong;
  });
  CHECK(failures(told) == "");
}

TEST_CASE("a call after a peer has been ended throws before anything is enqueued") {
  const Stage ended;
  const auto told = run(Mode::threads, 2, [&](int rank, ncclComm_t& comm, const OnDevice& device) -> std::string {
    std::vector<float> data(1000);
    if (rank == 0) {
      reduce(comm, device.stream(), data, data.size());
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      abort(comm, device);
      ended.next();
      return "";
    }
    ended.await(1);
    return reduce(comm, device.stream(), data, data.size());
  });
  INFO(told[1]);
  CHECK(contains(told[1], "rank 0"));
}

TEST_CASE("a killed rank is named by the survivors of calls that streams order", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const auto told = run(Mode::processes, 3, [&](int rank, ncclComm_t& comm, const OnDevice& device) -> std::string {
    std::vector<float> data(1000);
    if (std::string wrong = reduce(comm, device.stream(), data, data.size()); !wrong.empty()) return wrong;
    device.synchronize();
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    const std::string wrong = reduce(comm, device.stream(), data, data.size());
    return wrong.empty() ? settled_error(comm, device) : wrong;
  });
  for (int rank : {0, 2}) {
    INFO(told[static_cast<std::size_t>(rank)]);
    CHECK(contains(told[static_cast<std::size_t>(rank)], "rank 1"));
  }
}

TEST_CASE("a replayed graph that waits for a killed rank ends", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const auto told = run(Mode::processes, 2, [&](int rank, ncclComm_t& comm, const OnDevice& device) -> std::string {
    std::vector<float> data(1000, 1);
    Captured captured;
    if (std::string wrong = captured.capture(device, [&] { return reduce(comm, device.stream(), data, data.size()); });
        !wrong.empty())
      return wrong;
    cuGraphLaunch(captured.executable, device.stream());
    device.synchronize();
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    cuGraphLaunch(captured.executable, device.stream());
    return settled_error(comm, device);
  });
  INFO(told[0]);
  CHECK(contains(told[0], "rank 1"));
}

TEST_CASE("who is told of a failure, or has aborted, has the buffers back from streams that were released") {
  const StreamsLetGo let_go;
  constexpr float kMine = -7;
  const Setting memory("SCCL_DEVICE_MEM_LIMIT", "1048576");  // many slices: a stream has much left to do
  const Setting algorithm("SCCL_ALGO", "ring");
  fake_cuda_set_delays(1);
  for (const Mode mode : modes())
    for (const bool aborts : {false, true}) {
      INFO(name(mode) << (aborts ? " aborted" : " told"));
      const Stage called;
      const auto told = run(mode, 3, [&](int rank, ncclComm_t& comm, const OnDevice& device) -> std::string {
        std::vector<float> data(500000, 1);
        if (rank == 2) {  // leaves without a call
          called.await(2);
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          return "";
        }
        std::string text = reduce(comm, device.stream(), data, data.size());
        called.next();
        if (!text.empty()) return aborts && contains(text, "aborted") ? "" : text;  // the other one was faster
        if (aborts) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          ncclCommAbort(comm);
          comm = nullptr;
        } else if (const std::string error = async_error(comm); !contains(error, "rank")) {
          text = "told: " + error;
        }
        std::fill(data.begin(), data.end(), kMine);
        device.synchronize();
        const auto mine = std::count(data.begin(), data.end(), kMine);
        return text + (mine == 500000 ? "" : std::to_string(500000 - mine) + " elements were written afterwards");
      });
      CHECK(failures(told) == "");
    }
  fake_cuda_set_delays(0);
}

TEST_CASE("who is told of a failure has the window back from the others' streams") {
  constexpr int kMine = -7;
  fake_cuda_set_delays(1);
  for (const Mode mode : modes()) {
    INFO(name(mode));
    const Stage called;
    const auto told = run(mode, 3, [&](int rank, ncclComm_t& comm, const OnDevice& device) -> std::string {
      constexpr std::size_t kCount = 200000;
      Buffer inbox(kCount, true), mine(kCount, true);
      ncclWindow_t window = nullptr;
      if (ncclCommWindowRegister(comm, inbox.data, kCount * sizeof(int), &window, 0) != ncclSuccess)
        return gpu_test::told();
      std::fill(inbox.data, inbox.data + kCount, 0);
      std::fill(mine.data, mine.data + kCount, 1);
      ncclWaitSignalDesc_t wait{1, 2, 0, 0};
      std::string text;
      if (rank == 2) {  // leaves without a signal
        called.await(2);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        ncclCommAbort(comm);
        comm = nullptr;
      } else {
        // Puts that come after the wait, into the other's window.
        if (ncclWaitSignal(1, &wait, comm, device.stream()) != ncclSuccess) text = gpu_test::told();
        for (int i = 0; i < 50 && text.empty(); ++i)
          if (ncclPutSignal(mine.data, kCount, ncclInt32, 1 - rank, window, 0, 0, 1, 0, comm, device.stream()) !=
              ncclSuccess)
            text = gpu_test::told();
        called.next();
        if (const std::string error = async_error(comm); !contains(error, "rank")) text += "told: " + error;
      }
      std::fill(inbox.data, inbox.data + kCount, kMine);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      if (std::count(inbox.data, inbox.data + kCount, kMine) != kCount) text += " the window was written afterwards";
      device.synchronize();
      if (comm != nullptr) ncclCommAbort(comm);
      comm = nullptr;
      // Nobody's window goes while others may write into it.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return text;
    });
    CHECK(failures(told) == "");
  }
  fake_cuda_set_delays(0);
}
