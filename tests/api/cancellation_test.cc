// A thread that is cancelled (pthread_cancel) in a call completes the call, then it ends; its process goes on.
#include <pthread.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "asleep.h"
#include "stage.h"
#include "world.h"

using namespace api_test;

namespace {

std::string told() { return ncclGetLastError(nullptr); }

// What `call` returned in a thread that was cancelled while it slept in the call; `meanwhile` lets the call end.
std::string cancelled_in(const std::function<std::string()>& call, const std::function<void()>& meanwhile) {
  const sccl_test::Sleeper in_call;
  std::atomic<bool> returned{false};
  std::string result;
  std::thread caller([&] {
    in_call.calls_next();
    result = call();
    returned = true;
    for (;;) ::pthread_testcancel();
  });
  std::string not_asleep;
  try {
    in_call.await();
  } catch (const std::exception& error) {
    not_asleep = error.what();
  }
  ::pthread_cancel(caller.native_handle());
  meanwhile();
  caller.join();
  return !not_asleep.empty() ? not_asleep : returned ? result : "the call was not completed";
}

#if !defined(__SANITIZE_THREAD__)
std::string init(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank) {
  return ncclCommInitRank(comm, ranks, id, rank) == ncclSuccess ? "" : told();
}
#endif

}  // namespace

TEST_CASE("a thread that is cancelled in a call completes the call first") {
  const sccl_test::Stage cancelled;
  CHECK(failures(run_world(Mode::threads, 2, [&](int rank, ncclComm_t comm) -> std::string {
          std::vector<float> data(100000, 1.0f);
          const auto call = [&]() -> std::string {
            if (ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum, comm, nullptr) != ncclSuccess)
              return told();
            return data.back() == 2.0f ? "" : "wrong sum";
          };
          if (rank == 0) return cancelled_in(call, [&] { cancelled.next(); });
          cancelled.await(1);
          return call();
        })) == "");
}

TEST_CASE("a test that waits for a thread's sleep in vain says what it waited for") {
  const sccl_test::Sleeper caller;
  CHECK_THROWS_WITH(caller.await(std::chrono::milliseconds(5)), Catch::Contains("no thread has come to its call"));
  caller.calls_next();  // this thread, which is awake
  CHECK_THROWS_WITH(caller.await(std::chrono::milliseconds(5)), Catch::Contains("is in state R"));
  std::thread([&] { caller.calls_next(); }).join();
  CHECK_THROWS_WITH(caller.await(std::chrono::milliseconds(5)), Catch::Contains("has ended"));
}

#if !defined(__SANITIZE_THREAD__)
// Rank 1 comes only when rank 0's thread has been cancelled.
TEST_CASE("a thread that is cancelled in a call that makes something completes it first", "[processes]") {
  using Call = std::function<std::string(ncclComm_t)>;
  const auto split = [](ncclComm_t comm) -> std::string {
    ncclComm_t child = nullptr;
    if (ncclCommSplit(comm, 0, 0, &child, nullptr) != ncclSuccess) return told();
    return ncclCommDestroy(child) == ncclSuccess ? "" : told();
  };
  const auto window = [](ncclComm_t comm) -> std::string {
    void* memory = nullptr;
    ncclWindow_t made = nullptr;
    if (ncclMemAlloc(&memory, 65536) != ncclSuccess) return told();
    if (ncclCommWindowRegister(comm, memory, 65536, &made, NCCL_WIN_COLL_SYMMETRIC) != ncclSuccess) return told();
    if (ncclCommWindowDeregister(comm, made) != ncclSuccess) return told();
    return ncclMemFree(memory) == ncclSuccess ? "" : told();
  };
  for (const Call& call : {Call(split), Call(window)}) {
    const sccl_test::Stage cancelled;
    CHECK(failures(run_world(Mode::processes, 2, [&](int rank, ncclComm_t comm) -> std::string {
            if (rank == 0) return cancelled_in([&] { return call(comm); }, [&] { cancelled.next(); });
            cancelled.await(1);
            return call(comm);
          })) == "");
  }
}

TEST_CASE("a thread that is cancelled in a blocking init completes it first", "[processes]") {
  const sccl_test::Stage cancelled;
  CHECK(failures(run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
          ncclComm_t comm = nullptr;
          std::string wrong;
          if (rank == 0) {
            wrong = cancelled_in([&] { return init(&comm, 2, id, 0); }, [&] { cancelled.next(); });
          } else {
            cancelled.await(1);
            wrong = init(&comm, 2, id, 1);
          }
          if (!wrong.empty()) return wrong;
          return ncclCommDestroy(comm) == ncclSuccess ? "" : told();
        })) == "");
}

TEST_CASE("a thread that is cancelled in an init to which nobody comes ends when the init is aborted", "[processes]") {
  const std::vector<std::string> results =
      run_bare_world(Mode::processes, 1, [](int, const ncclUniqueId& id) -> std::string {
        ncclComm_t comm = nullptr;
        const auto handle = [&] { return __atomic_load_n(&comm, __ATOMIC_ACQUIRE); };
        const auto abort_it = [&] {
          while (handle() == nullptr) std::this_thread::yield();
          ncclCommAbort(handle());
        };
        return cancelled_in([&] { return init(&comm, 2, id, 0); }, abort_it);
      });
  CHECK_THAT(results.front(), Catch::Contains("aborted") && !Catch::Contains("ended with status"));
}
#endif
