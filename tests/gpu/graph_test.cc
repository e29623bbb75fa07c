// Calls inside captured graphs.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "gpu/captured.h"
#include "gpu/failures.h"

using namespace api_test;
using namespace gpu_test;

namespace {

std::string error_or_nothing(ncclResult_t result) { return result == ncclSuccess ? "" : ncclGetLastError(nullptr); }

}  // namespace

TEST_CASE("the first call of a communicator may be captured, and replays advance by themselves") {
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
            fake_cuda_reset_calls();
            std::vector<float> small(2, 1), large(100000, 1);
            Captured captured;
            std::string wrong = captured.capture(device, [&] {
              std::string first = error_or_nothing(
                  ncclAllReduce(small.data(), small.data(), small.size(), ncclFloat, ncclSum, comm, device.stream()));
              return first + error_or_nothing(ncclAllReduce(large.data(), large.data(), large.size(), ncclFloat,
                                                            ncclSum, comm, device.stream()));
            });
            if (!wrong.empty()) return wrong;
            if (fake_cuda_violations() != 0) return std::string("a call that captures forbid: ") + fake_cuda_calls();
            if (small[0] != 1) return "a captured call ran";
            for (int replay = 0; replay < 7; ++replay) cuGraphLaunch(captured.executable, device.stream());
            device.synchronize();
            if (small[0] != 128 || small[1] != 128 || large[99999] != 128)
              return "wrong sum " + std::to_string(small[0]);
            captured.destroy();
            return "";
          })) == "");
}

TEST_CASE("a group on a captured stream and another one is refused, and the communicator goes on") {
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
          void* other = nullptr;
          cuStreamCreate(&other, 1);
          std::vector<int> first(10, 1), second(10, 1);
          const auto call = [&](std::vector<int>& data, void* stream) {
            return ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm,
                                 static_cast<cudaStream_t>(stream));
          };
          const auto call_both = [&] {
            ncclGroupStart();
            call(first, device.stream());
            call(second, other);
            return ncclGroupEnd();
          };
          Captured captured;
          std::string wrong = captured.capture(device, [&]() -> std::string {
            if (call_both() != ncclInvalidUsage) return "not refused: " + told();
            return contains(told(), "in the same capture") ? "" : told();
          });
          captured.destroy();
          wrong += error_or_nothing(call_both());
          device.synchronize();
          cuStreamDestroy_v2(other);
          if (first[9] != 2 || second[9] != 2) wrong += "wrong sums";
          return wrong;
        })) == "");
}

TEST_CASE("a call on another stream leaves a capture alone that began behind the call before") {
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            void* other = nullptr;
            cuStreamCreate(&other, 1);
            std::vector<int> before(10, 1), beside(10, 1), inside(10, 1);
            if (rank == 0 || mode == Mode::processes) fake_cuda_reset_calls();
            // The first rank's call before still waits when its capture begins.
            if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
            const auto call = [&](std::vector<int>& data, void* stream) {
              return error_or_nothing(ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm,
                                                    static_cast<cudaStream_t>(stream)));
            };
            std::string wrong = call(before, device.stream());
            Captured captured;
            wrong += captured.capture(device, [&] { return call(beside, other) + call(inside, device.stream()); });
            if (fake_cuda_violations() != 0) return std::string("a call that captures forbid: ") + fake_cuda_calls();
            cuStreamSynchronize(other);
            for (int replay = 0; replay < 2; ++replay) cuGraphLaunch(captured.executable, device.stream());
            device.synchronize();
            captured.destroy();
            cuStreamDestroy_v2(other);
            if (before[9] != 2 || beside[9] != 2 || inside[9] != 4) wrong += "wrong sums";
            return wrong;
          })) == "");
}

TEST_CASE("a group on two streams of one capture is replayed") {
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
          void *other = nullptr, *event = nullptr;
          cuStreamCreate(&other, 1);
          cuEventCreate(&event, 2);
          std::vector<int> first(10, 1), second(100000, 1);
          const auto call = [&](std::vector<int>& data, void* stream) {
            return ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm,
                                 static_cast<cudaStream_t>(stream));
          };
          const auto order = [&](void* earlier, void* later) {
            cuEventRecord(event, earlier);
            return cuStreamWaitEvent(later, event, 0) == 0 ? "" : "the streams are not ordered. ";
          };
          Captured captured;
          std::string wrong = captured.capture(device, [&]() -> std::string {
            std::string text = order(device.stream(), other);  // takes the other one into the capture
            ncclGroupStart();
            call(first, device.stream());
            call(second, other);
            text += error_or_nothing(ncclGroupEnd());
            return text + order(other, device.stream());
          });
          if (wrong.empty()) {
            for (int replay = 0; replay < 3; ++replay) cuGraphLaunch(captured.executable, device.stream());
            device.synchronize();
            captured.destroy();
            if (first[9] != 8 || second[99999] != 8)
              wrong = "wrong sums " + std::to_string(first[9]) + " " + std::to_string(second[99999]);
          }
          cuEventDestroy_v2(event);
          cuStreamDestroy_v2(other);
          return wrong;
        })) == "");
}

TEST_CASE("captured and direct calls take turns") {
  CHECK(failures(
            run_device_world(Mode::threads, 3, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
              std::vector<int> sum(3000, 1), gathered(3, -1);
              Captured captured;
              std::string wrong = captured.capture(device, [&] {
                return error_or_nothing(
                    ncclAllReduce(sum.data(), sum.data(), sum.size(), ncclInt32, ncclSum, comm, device.stream()));
              });
              for (int turn = 0; turn < 3 && wrong.empty(); ++turn) {
                cuGraphLaunch(captured.executable, device.stream());
                wrong = error_or_nothing(ncclAllGather(&rank, gathered.data(), 1, ncclInt32, comm, device.stream()));
              }
              device.synchronize();
              captured.destroy();
              if (sum[0] != 27) wrong += " wrong sum " + std::to_string(sum[0]);
              for (int peer = 0; peer < 3; ++peer)
                if (gathered[static_cast<std::size_t>(peer)] != peer) wrong += " wrong gather";
              return wrong;
            })) == "");
}

TEST_CASE("transfers are captured and replayed, whatever is called in between") {
  CHECK(failures(
            run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
              std::vector<int> in(1000, rank), out(1000, -1);
              Captured captured;
              const auto exchange = [&] {
                ncclGroupStart();
                ncclSend(in.data(), in.size(), ncclInt32, 1 - rank, comm, device.stream());
                ncclRecv(out.data(), out.size(), ncclInt32, 1 - rank, comm, device.stream());
                return error_or_nothing(ncclGroupEnd());
              };
              std::string wrong = captured.capture(device, exchange);
              for (int turn = 0; turn < 3; ++turn) {
                out.assign(1000, -1);
                cuGraphLaunch(captured.executable, device.stream());
                device.synchronize();
                if (out[999] != 1 - rank) wrong += " wrong replay";
                wrong += exchange();
                device.synchronize();
              }
              device.synchronize();
              captured.destroy();
              return wrong;
            })) == "");
}

TEST_CASE("a graph may outlive its communicator, and the last one gives the memory back") {
  { const OnDevice warm_up; }
  const std::string before = fake_cuda_live_text();
  std::vector<std::string> results =
      run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
        const OnDevice device;
        ncclComm_t comm = nullptr;
        if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
        std::vector<float> value(5000, 1);
        Captured captured;
        std::string wrong = captured.capture(device, [&] {
          return error_or_nothing(
              ncclAllReduce(value.data(), value.data(), value.size(), ncclFloat, ncclSum, comm, device.stream()));
        });
        ncclCommDestroy(comm);
        cuGraphLaunch(captured.executable, device.stream());
        device.synchronize();
        captured.destroy();
        return value[4999] == 2 ? wrong : wrong + " wrong sum " + std::to_string(value[4999]);
      });
  CHECK(failures(results) == "");
  // The callback of a graph may not call the driver: what it let go of goes with the next communicator.
  CHECK(failures(run_device_world(Mode::threads, 1, [](int, ncclComm_t, const OnDevice&) { return std::string(); })) ==
        "");
  CHECK(std::string(fake_cuda_live_text()) == before);
}

TEST_CASE("init beside another thread's capture disturbs it not") {
  const OnDevice device;
  fake_cuda_reset_calls();
  cuStreamBeginCapture_v2(device.stream(), 0);
  CHECK(failures(run_device_world(Mode::threads, 2, [](int, ncclComm_t, const OnDevice&) { return std::string(); })) ==
        "");
  void* graph = nullptr;
  cuStreamEndCapture(device.stream(), &graph);
  cuGraphDestroy(graph);
  CHECK(fake_cuda_violations() == 0);
}
