// PutSignal, Signal and WaitSignal ordered by streams: as with kernels that wait, and without them.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>

#include "gpu/captured.h"
#include "gpu/logged.h"
#include "gpu/windows.h"
#include "stage.h"

using namespace api_test;
using namespace gpu_test;

namespace {

bool ran_waiting_kernels() { return contains(fake_cuda_launched(), ";sccl_one_sided"); }

// Signals of every index and context to every rank, fewer than are waited for at once, or more.
std::string signal_all(int rank, int ranks, ncclComm_t comm, const OnDevice& device, int round) {
  for (int peer = 0; peer < ranks; ++peer)
    for (int i = 0; i < 1 + (rank + peer) % 3; ++i)
      for (int signal = 0; signal < 3; ++signal)
        for (int context = 0; context < 2; ++context)
          if (ncclSignal(peer, signal, context, 0, comm, device.stream()) != ncclSuccess) return told();
  std::vector<ncclWaitSignalDesc_t> waits;
  for (int peer = ranks - 1; peer >= 0; --peer)
    for (int i = 0; i < 1 + (rank + peer) % 3; ++i)
      for (int signal = 0; signal < 3; ++signal)
        for (int context = 0; context < 2; ++context) waits.push_back({1, peer, signal, context});
  // In one call, or in as many as there are signals.
  const std::size_t step = round % 2 == 0 ? waits.size() : 1;
  for (std::size_t at = 0; at < waits.size(); at += step)
    if (ncclWaitSignal(static_cast<int>(step), waits.data() + at, comm, device.stream()) != ncclSuccess) return told();
  device.synchronize();
  return "";
}

ncclResult_t wait_for(int peer, ncclComm_t comm, const OnDevice& device) {
  ncclWaitSignalDesc_t wait{1, peer, 0, 0};
  return ncclWaitSignal(1, &wait, comm, device.stream());
}

std::vector<std::string> run(Mode mode, int ranks,
                             const std::function<std::string(int, ncclComm_t&, const OnDevice&)>& body) {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  return run_bare_world(mode, ranks, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) return told();
    std::string text = body(rank, comm, device);
    if (comm != nullptr) ncclCommAbort(comm);
    device.synchronize();  // no stream keeps waiting
    return text;
  });
}

}  // namespace

TEST_CASE("processes that share a device without a process service put and signal without a kernel that waits",
          "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  fake_cuda_set_process_service(0);
  CHECK(failures(
            run_device_world(Mode::processes, 3, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
              fake_cuda_reset_calls();
              std::string wrong =
                  put_around(rank, 3, comm, device, true, 7) + put_around(rank, 3, comm, device, false, 100000);
              for (int round = 0; round < 2; ++round) wrong += signal_all(rank, 3, comm, device, round);
              return wrong + (ran_waiting_kernels() ? "kernels that may wait ran" : "");
            })) == "");
  fake_cuda_set_process_service(1);
}

TEST_CASE("puts and signals that streams order arrive, however late a stream or a kernel is") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  for (const bool late : {false, true})
    for (const Mode mode : modes())
      for (const int devices : {1, 2}) {
        INFO(name(mode) << " " << devices);
        fake_cuda_set_delays(0);
        CHECK(failures(run_device_world(
                  mode, 3,
                  [&](int rank, ncclComm_t comm, const OnDevice& device) {
                    fake_cuda_set_delays(late ? 1 : 0);  // the check of peer access has a limit of time
                    fake_cuda_reset_calls();
                    std::string wrong;
                    for (int round = 0; round < 3 && wrong.empty(); ++round)
                      wrong = put_around(rank, 3, comm, device, round == 1, 3000) +
                              signal_all(rank, 3, comm, device, round);
                    return wrong + (ran_waiting_kernels() ? "kernels that may wait ran" : "");
                  },
                  devices)) == "");
      }
  fake_cuda_set_delays(0);
}

TEST_CASE("captured puts and waits that streams order can be replayed, between calls that are not captured") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            Buffer inbox(1, true), mine(1, true);
            ncclWindow_t window = nullptr;
            if (ncclCommWindowRegister(comm, inbox.data, 4, &window, 0) != ncclSuccess) return told();
            fake_cuda_reset_calls();
            const auto exchange = [&]() -> std::string {
              const bool done = ncclPutSignal(mine.data, 1, ncclInt32, 1 - rank, window, 0, 0, 0, 0, comm,
                                              device.stream()) == ncclSuccess &&
                                wait_for(1 - rank, comm, device) == ncclSuccess;
              return done ? "" : told();
            };
            Captured captured;
            std::string wrong = captured.capture(device, exchange);
            if (fake_cuda_violations() != 0) wrong += std::string("a call that captures forbid: ") + fake_cuda_calls();
            for (int round = 1; round < 8 && wrong.empty(); ++round) {
              *mine.data = 10 * round + rank;
              round % 3 == 0 ? wrong += exchange() : (cuGraphLaunch(captured.executable, device.stream()), wrong);
              device.synchronize();
              if (*inbox.data != 10 * round + 1 - rank) wrong += "round " + std::to_string(round);
              ncclWaitSignalDesc_t read{1, 1 - rank, 1, 0};
              ncclSignal(1 - rank, 1, 0, 0, comm, device.stream());
              ncclWaitSignal(1, &read, comm, device.stream());
            }
            device.synchronize();
            captured.destroy();
            return wrong + (ran_waiting_kernels() ? "kernels that may wait ran" : "");
          })) == "");
}

TEST_CASE("a driver that captures no waits for values runs captured waits for signals as kernels", "[processes]") {
  // What a process has found once it keeps: only when this test is the first of its process can it tell.
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  if (fake_cuda_kernels() > 0) return sccl_test::skip(kNotFirst);
  fake_cuda_set_version(11080);
  const Setting path("SCCL_DEVICE_PATH", "streams");
  CHECK(failures(
            run_device_world(Mode::processes, 2, [](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
              Captured captured;
              const auto exchange = [&]() -> std::string {
                const bool done = ncclSignal(1 - rank, 0, 0, 0, comm, device.stream()) == ncclSuccess &&
                                  wait_for(1 - rank, comm, device) == ncclSuccess;
                return done ? "" : told();
              };
              std::string wrong = captured.capture(device, exchange);
              for (int round = 0; round < 4 && wrong.empty(); ++round) {
                // Ranks take the two in other turns.
                if ((round + rank) % 2 == 0)
                  wrong = exchange();
                else
                  cuGraphLaunch(captured.executable, device.stream());
                device.synchronize();
              }
              if (fake_cuda_violations() != 0) wrong += "a call that captures forbid";
              captured.destroy();
              return wrong + (ran_waiting_kernels() ? "" : "no kernel waited");
            })) == "");
  fake_cuda_set_version(13000);
}

TEST_CASE("abort ends a stream that waits for a signal") {
  for (const Mode mode : modes()) {
    const sccl_test::Stage called;
    CHECK(failures(run(mode, 2, [&](int rank, ncclComm_t& comm, const OnDevice& device) -> std::string {
            if (rank == 0 && wait_for(1, comm, device) != ncclSuccess) return told();
            if (rank == 0) called.next();
            called.await(1);
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            return "";
          })) == "");
  }
}

TEST_CASE("a stream that waits for a signal of an aborted rank is told so, and passes no signal on") {
  for (const Mode mode : modes()) {
    const sccl_test::Stage called;
    const auto told = run(mode, 3, [&](int rank, ncclComm_t& comm, const OnDevice& device) -> std::string {
      if (rank == 1) {
        called.await(2);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        return "";
      }
      if (wait_for(rank == 0 ? 1 : 0, comm, device) != ncclSuccess) return gpu_test::told();
      if (rank == 0 && ncclSignal(2, 0, 0, 0, comm, device.stream()) != ncclSuccess) return gpu_test::told();
      called.next();
      const std::string error = async_error(comm);
      device.synchronize();
      return error;
    });
    INFO(told[0] << "\n" << told[2]);
    CHECK(contains(told[0], "rank 1"));
    CHECK(contains(told[0], "aborted"));
    CHECK(contains(told[0], "WaitSignal"));
    CHECK(contains(told[2], "rank 1"));
  }
}

TEST_CASE("a stream that waits for a signal of a killed rank ends, a replayed one as well", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  for (const bool replayed : {false, true}) {
    const auto texts = run(Mode::processes, 2, [&](int rank, ncclComm_t& comm, const OnDevice& device) -> std::string {
      Captured captured;
      std::string wrong =
          captured.capture(device, [&] { return wait_for(1 - rank, comm, device) == ncclSuccess ? "" : told(); });
      if (ncclSignal(1 - rank, 0, 0, 0, comm, device.stream()) != ncclSuccess) return told();
      cuGraphLaunch(captured.executable, device.stream());
      device.synchronize();
      if (rank == 1) ::kill(::getpid(), SIGKILL);
      if (replayed)
        cuGraphLaunch(captured.executable, device.stream());
      else if (wait_for(1, comm, device) != ncclSuccess)
        return told();
      return wrong + async_error(comm);
    });
    INFO(texts[0]);
    CHECK(contains(texts[0], "rank 1"));
  }
}

TEST_CASE("what one-sided calls that streams order used is given back") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  { const OnDevice warm_up; }
  const std::string before = fake_cuda_live_text();
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            return put_around(rank, 2, comm, device, true, 10) + signal_all(rank, 2, comm, device, 0);
          })) == "");
  CHECK(std::string(fake_cuda_live_text()) == before);
}
