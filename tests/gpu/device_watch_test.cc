// The thread that watches over a device's calls, and the order in which it and what it uses come to their end.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "gpu/failures.h"
#include "runtime/gpu/watch/periodic_thread.h"

using namespace api_test;
using namespace gpu_test;
using namespace std::chrono_literals;
using sccl::runtime::PeriodicThread;

TEST_CASE("a periodic thread takes turn after turn, and none after its end") {
  std::atomic<int> turns{0};
  PeriodicThread thread;
  thread.start(0ms, [&] {
    ++turns;
    return 0ms;
  });
  while (turns < 5) std::this_thread::yield();
  thread.end();
  const int before = turns;
  std::this_thread::sleep_for(5ms);
  CHECK(turns == before);
  thread.end();  // again: nothing happens
}

TEST_CASE("a periodic thread ends in the middle of a pause, and one that was never started ends, too") {
  PeriodicThread started, idle;
  started.start(1h, [] { return 1h; });
  started.end();
  idle.end();
}

TEST_CASE("a thread that is the last member has ended before the members that its turns use are destroyed") {
  std::atomic<bool> used_when_gone{false};
  std::atomic<int> turns{0};
  struct Used {
    std::atomic<bool>& used_when_gone;
    std::atomic<bool> gone{false};
    std::atomic<bool> in_use{false};
    ~Used() {
      gone = true;
      if (in_use) used_when_gone = true;
    }
  };
  struct Owner {
    Used used;
    PeriodicThread thread;
    Owner(std::atomic<bool>& used_when_gone, std::atomic<int>& turns) : used{used_when_gone} {
      thread.start(0ms, [this, &turns] {
        used.in_use = true;
        ++turns;
        std::this_thread::sleep_for(1ms);
        used.in_use = false;
        return 0ms;
      });
    }
  };
  for (int round = 0; round < 20; ++round) {
    const int before = turns;
    const Owner owner(used_when_gone, turns);
    while (turns == before) std::this_thread::yield();
  }
  CHECK_FALSE(used_when_gone);
}

// The report of a failure comes back to the communicator and its executor, whatever of them is being destroyed.
TEST_CASE("a communicator may be aborted while its watch reports a failure") {
  for (int round = 0; round < 8; ++round) {
    const auto told = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
      const OnDevice device;
      ncclComm_t comm = nullptr;
      if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
      std::vector<float> data(1001);
      // Refused, perhaps, when the other rank is gone already.
      reduce(comm, device.stream(), data, 1000 + static_cast<std::size_t>(rank));
      std::this_thread::sleep_for(std::chrono::milliseconds(2 * round));
      const std::string wrong = ncclCommAbort(comm) == ncclSuccess ? "" : ncclGetLastError(nullptr);
      device.synchronize();
      return wrong;
    });
    CHECK(failures(told) == "");
  }
}
