// Choices for calls on devices: measured by events in few calls, kept for the next communicator, the same at all ranks.
#include <catch2/catch.hpp>
#include <map>

#include "gpu/captured.h"
#include "gpu/failures.h"
#include "gpu/fresh_machine.h"
#include "runtime/gpu/choice/device_tuner.h"

using namespace api_test;
using namespace gpu_test;
using sccl::runtime::exploration_turn;

namespace {

std::string sums(ncclComm_t comm, const OnDevice& device, int ranks, int calls, bool waits) {
  std::vector<int> ones(20, 1);
  std::vector<int> data(20);
  // In place where each call is waited for; a buffer of a call in flight must not be written.
  std::vector<int>& input = waits ? data : ones;
  for (int call = 0; call < calls; ++call) {
    if (waits) std::fill(data.begin(), data.end(), 1);
    if (ncclAllReduce(input.data(), data.data(), data.size(), ncclInt32, ncclSum, comm, device.stream()) != ncclSuccess)
      return told();
    if (!waits && call + 1 < calls) continue;
    device.synchronize();
    if (waits && (data.front() != ranks || data.back() != ranks)) return "wrong sum in call " + std::to_string(call);
  }
  return "";
}

}  // namespace

TEST_CASE("other entrants run in 5% of a size class's calls at most, each equally often, and then no more") {
  for (const int entrants : {1, 2, 5}) {
    std::map<int, int> timed;
    for (std::uint64_t call = 1; call <= 2000; ++call) {
      const auto turn = exploration_turn(call, entrants);
      REQUIRE(turn.entrant < entrants);
      if (turn.entrant != 0) CHECK(call % 20 == 0);
      if (turn.timed) ++timed[turn.entrant];
      if (call > static_cast<std::uint64_t>(20 * 6 * (entrants - 1))) CHECK_FALSE(turn.timed);
    }
    CHECK(static_cast<int>(timed.size()) == (entrants == 1 ? 0 : entrants));
    for (int entrant = 1; entrant < entrants; ++entrant) CHECK(timed[entrant] == sccl::runtime::kRunsOfEntrant);
  }
}

namespace {

// Measures, and looks who serves afterwards.
void check_winner(const char* protocol) {
  const FreshMachine machine("ALL");
  {
    const Setting tune("SCCL_TUNE", "online");
    CHECK(failures(run_device_world(Mode::threads, 2, [](int, ncclComm_t comm, const OnDevice& device) {
            return sums(comm, device, 2, 600, true);
          })) == "");
  }
  CHECK(machine.kept(".tuning").size() == 1);
  CHECK(machine.told("serves the next communicators: measured") == 1);
  CHECK(failures(run_device_world(Mode::threads, 2, [](int, ncclComm_t comm, const OnDevice& device) {
          return sums(comm, device, 2, 10, true);
        })) == "");
  CHECK(machine.told("serves; measured before") == 2);
  CHECK(machine.told(std::string(protocol) + " serves; measured before") == 2);
  // Other numbers of ranks are another place.
  CHECK(failures(run_device_world(Mode::threads, 3, [](int, ncclComm_t comm, const OnDevice& device) {
          return sums(comm, device, 3, 10, true);
        })) == "");
  CHECK(machine.told("serves; measured before") == 2);
  fake_cuda_set_call_costs(10, 10);
}

}  // namespace

TEST_CASE("what was measured of calls on a device serves the next communicator on all ranks") {
  fake_cuda_set_call_costs(10, 40);
  check_winner("(simple)");
}

TEST_CASE("the usual choice on a device stays where nothing else was measured to be clearly faster") {
  fake_cuda_set_call_costs(9.8, 10);
  check_winner("(ll)");
}

TEST_CASE("measuring asks nobody to wait, in captures nothing is measured, and nothing is left behind") {
  const FreshMachine machine("ALL");
  { const OnDevice warm_up; }
  const std::string before = fake_cuda_live_text();
  const Setting tune("SCCL_TUNE", "online");
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
            std::string wrong = sums(comm, device, 2, 100, false);
            fake_cuda_reset_calls();
            std::vector<int> data(20, 1);
            Captured captured;
            wrong += captured.capture(device, [&] {
              for (int call = 0; call < 40; ++call)
                if (ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclMax, comm, device.stream()) !=
                    ncclSuccess)
                  return told();
              return std::string();
            });
            // Ranks that are threads look at the same record of calls.
            const bool measured = mode == Mode::processes && contains(fake_cuda_calls(), "cuEventElapsedTime");
            if (fake_cuda_violations() != 0 || measured) wrong += "something was measured in a capture";
            cuGraphLaunch(captured.executable, device.stream());
            wrong += sums(comm, device, 2, 100, false);
            device.synchronize();
            captured.destroy();
            return wrong;
          })) == "");
  CHECK(failures(run_device_world(Mode::threads, 1, [](int, ncclComm_t, const OnDevice&) { return std::string(); })) ==
        "");
  CHECK(std::string(fake_cuda_live_text()) == before);
}
