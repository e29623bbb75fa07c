// Calls that streams order: the same results as with kernels that wait, and none of those kernels.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "gpu/captured.h"
#include "gpu/device_world.h"
#include "gpu/logged.h"
#include "platform/gpu/stream_operations.h"

using namespace api_test;
using namespace gpu_test;

namespace {

// Names of kernels that ran and may have waited.
std::string waiting_kernels() {
  std::string names = fake_cuda_launched();
  for (std::size_t at; (at = names.find(";sccl_move_")) != std::string::npos;)
    names.erase(at, std::min(names.find(';', at + 1), names.size()) - at);
  return names.empty() ? "" : " kernels that may wait ran: " + names;
}

// Nothing between processes: their kernels take turns.
struct WithoutProcessService {
  WithoutProcessService() { fake_cuda_set_process_service(0); }
  ~WithoutProcessService() { fake_cuda_set_process_service(1); }
};

std::string exchange(int rank, int ranks, std::size_t count, ncclComm_t comm, const OnDevice& device) {
  std::vector<std::vector<unsigned char>> in(static_cast<std::size_t>(ranks)), out(static_cast<std::size_t>(ranks));
  ncclGroupStart();
  for (int peer = 0; peer < ranks; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    const std::size_t sent = count / static_cast<std::size_t>(1 + rank + peer);
    in[at].assign(sent + 1, static_cast<unsigned char>(10 * rank + peer));
    out[at].assign(sent + 1, 0xff);
    if (ncclSend(in[at].data(), sent, ncclUint8, peer, comm, device.stream()) != ncclSuccess ||
        ncclRecv(out[at].data(), sent, ncclUint8, peer, comm, device.stream()) != ncclSuccess)
      return ncclGetLastError(nullptr);
  }
  if (ncclGroupEnd() != ncclSuccess) return ncclGetLastError(nullptr);
  device.synchronize();
  for (int peer = 0; peer < ranks; ++peer) {
    const auto& data = out[static_cast<std::size_t>(peer)];
    const auto right = std::count(data.begin(), data.end() - 1, static_cast<unsigned char>(10 * peer + rank));
    if (static_cast<std::size_t>(right) + 1 != data.size() || data.back() != 0xff)
      return "wrong bytes from rank " + std::to_string(peer) + " of " + std::to_string(data.size() - 1);
  }
  return "";
}

std::string allreduce(ncclComm_t comm, std::vector<int>& data, cudaStream_t stream) {
  return ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm, stream) == ncclSuccess
             ? ""
             : ncclGetLastError(nullptr);
}

}  // namespace

TEST_CASE("processes that share a device without a process service run no kernel that waits", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const WithoutProcessService alone;
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks);
    CHECK(failures(run_device_world(Mode::processes, ranks, [&](int rank, ncclComm_t comm, const OnDevice& device) {
            fake_cuda_reset_calls();
            std::string wrong = run_cases(rank, ranks, comm, {1, 100, 5000});
            for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{1000000}})
              wrong += exchange(rank, ranks, count, comm, device);
            const bool waited = std::string(fake_cuda_calls()).find("cuStreamBatchMemOp_v2") != std::string::npos;
            return wrong + waiting_kernels() + (waited ? "" : " no stream waited");
          })) == "");
  }
}

TEST_CASE("with a process service, and for threads of one process, kernels serve") {
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [&](int rank, ncclComm_t comm, const OnDevice&) {
            fake_cuda_reset_calls();
            const std::string wrong = run_cases(rank, 2, comm, {100});
            return wrong + (waiting_kernels().empty() ? " no kernel ran" : "");
          })) == "");
}

TEST_CASE("every type and operation reduces in calls that streams order") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  CHECK(failures(run_device_world(Mode::threads, 3, [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
          for (const TypeInfo& type : types())
            for (const Op op : kOps)
              for (const KindInfo& kind : kinds()) {
                if (!kind.reduces) continue;
                Case test{&kind, &type, op, 700, kind.has_in_place && op == Op::max, 0, 1};
                if (std::string wrong = run_case(test, rank, 3, comm); !wrong.empty()) return wrong;
              }
          return "";
        })) == "");
}

TEST_CASE("long calls go through few slots in many slices, ordered by streams") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  const Setting memory("SCCL_DEVICE_MEM_LIMIT", "1048576");  // slots of 64 KiB
  for (const int ranks : {2, 5})
    CHECK(failures(run_device_world(Mode::threads, ranks,
                                    [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
                                      fake_cuda_reset_calls();
                                      std::string wrong = run_cases(rank, ranks, comm, {150001});
                                      wrong += exchange(rank, ranks, 3000000, comm, device);
                                      return wrong + waiting_kernels();
                                    })) == "");
}

TEST_CASE("every planner's schedules run ordered by streams") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  const Setting memory("SCCL_DEVICE_MEM_LIMIT", "1048576");
  for (const char* planner : {"ring", "recursive", "binomial", "all-pairs", "one-hop"}) {
    INFO(planner);
    const Setting algorithm("SCCL_ALGO", planner);
    CHECK(failures(run_device_world(Mode::threads, 4, [&](int rank, ncclComm_t comm, const OnDevice&) {
            return run_cases(rank, 4, comm, {33, 100000}) + waiting_kernels();
          })) == "");
  }
}

TEST_CASE("calls that streams order are right however late a stream is") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  const Setting memory("SCCL_DEVICE_MEM_LIMIT", "1048576");
  fake_cuda_set_delays(1);
  CHECK(failures(run_device_world(Mode::threads, 3, [&](int rank, ncclComm_t comm, const OnDevice& device) {
          std::string wrong;
          for (int round = 0; round < 3; ++round)
            wrong += run_cases(rank, 3, comm, {100, 40000}) + exchange(rank, 3, 500000, comm, device);
          return wrong;
        })) == "");
  fake_cuda_set_delays(0);
}

TEST_CASE("a small AllReduce of two processes is three calls for flags, a copy and a kernel", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const WithoutProcessService alone;
  CHECK(failures(run_device_world(Mode::processes, 2, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
          std::vector<int> data(2, 1);
          std::string wrong = allreduce(comm, data, device.stream());
          device.synchronize();
          fake_cuda_reset_calls();
          wrong += allreduce(comm, data, device.stream());
          const std::string calls = fake_cuda_calls();
          const auto count = [&](const std::string& name) {
            int found = 0;
            for (std::size_t at = 0; (at = calls.find(name + ";", at)) != std::string::npos; ++at) ++found;
            return found;
          };
          device.synchronize();
          const bool few = count("cuStreamBatchMemOp_v2") == 3 && count("cuMemcpyDtoDAsync_v2") == 1 &&
                           count("cuLaunchKernel") == 1 && count("cuStreamWaitValue32_v2") == 0;
          return wrong + (few ? "" : calls) + (data[0] == 4 ? "" : " wrong sum");
        })) == "");
}

TEST_CASE("named links are kept to where streams order calls") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  const Setting links("SCCL_TOPO", "dgx1v");
  CHECK(failures(run_device_world(Mode::threads, 4, [&](int rank, ncclComm_t comm, const OnDevice&) {
          return run_cases(rank, 4, comm, {100, 5000}) + waiting_kernels();
        })) == "");
}

TEST_CASE("large moves go through copy engines when they are asked for, and nothing else does") {
  const Setting engines("SCCL_COPY_ENGINE_BYTES", "100000");
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 3, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            const TypeInfo* type = nullptr;
            for (const TypeInfo& known : types())
              if (known.type == ncclFloat) type = &known;
            for (const KindInfo& kind : kinds())
              for (const std::size_t count : {std::size_t{100}, std::size_t{30000}}) {
                fake_cuda_reset_calls();
                Case test{&kind, type, Op::sum, count, false, 0, 1};
                if (std::string wrong = run_case(test, rank, 3, comm); !wrong.empty()) return wrong;
                const bool engine = std::string(fake_cuda_calls()).find("cuMemcpyDtoDAsync_v2") != std::string::npos;
                // Ranks that are threads look at the same record of calls.
                if (mode == Mode::processes && engine != (!kind.reduces && count == 30000))
                  return test.text() + (engine ? " used a copy engine" : " used no copy engine");
                if (engine && mode == Mode::processes && std::string(fake_cuda_launched()).size() > 0)
                  return test.text() + " launched " + fake_cuda_launched();
              }
            // Sizes on both sides of the limit in one batch.
            std::string wrong = exchange(rank, 3, 250000, comm, device);
            return wrong + run_cases(rank, 3, comm, {7, 20000});
          })) == "");
}

TEST_CASE("calls that streams order are captured, and replays need no host") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            fake_cuda_reset_calls();
            std::vector<int> small(2, 1), large(100000, 1), in(1000, rank), out(1000, -1);
            Captured captured;
            std::string wrong = captured.capture(device, [&] {
              std::string first = allreduce(comm, small, device.stream()) + allreduce(comm, large, device.stream());
              ncclGroupStart();
              ncclSend(in.data(), in.size(), ncclInt32, 1 - rank, comm, device.stream());
              ncclRecv(out.data(), out.size(), ncclInt32, 1 - rank, comm, device.stream());
              return first + (ncclGroupEnd() == ncclSuccess ? "" : ncclGetLastError(nullptr));
            });
            if (!wrong.empty()) return wrong;
            if (fake_cuda_violations() != 0) return std::string("a call that captures forbid: ") + fake_cuda_calls();
            if (small[0] != 1) return "a captured call ran";
            for (int replay = 0; replay < 7; ++replay) {
              cuGraphLaunch(captured.executable, device.stream());
              if (replay % 3 == 0) wrong += allreduce(comm, small, device.stream());
            }
            device.synchronize();
            if (small[0] != 1024 || small[1] != 1024 || large[99999] != 128)
              wrong += " wrong sum " + std::to_string(small[0]);
            if (out[999] != 1 - rank) wrong += " wrong transfer";
            captured.destroy();
            return wrong + waiting_kernels();
          })) == "");
}

TEST_CASE("a graph of calls that streams order may outlive its communicator") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  { const OnDevice warm_up; }
  const std::string before = fake_cuda_live_text();
  CHECK(failures(run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
          const OnDevice device;
          ncclComm_t comm = nullptr;
          if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
          std::vector<int> value(5000, 1);
          Captured captured;
          std::string wrong = captured.capture(device, [&] { return allreduce(comm, value, device.stream()); });
          ncclCommDestroy(comm);
          for (int replay = 0; replay < 2; ++replay) cuGraphLaunch(captured.executable, device.stream());
          device.synchronize();
          captured.destroy();
          return value[4999] == 4 ? wrong : wrong + " wrong sum " + std::to_string(value[4999]);
        })) == "");
  // The callback of a graph may not call the driver: what it let go of goes with the next communicator.
  CHECK(failures(run_device_world(Mode::threads, 1, [](int, ncclComm_t, const OnDevice&) { return std::string(); })) ==
        "");
  CHECK(std::string(fake_cuda_live_text()) == before);
}

TEST_CASE("a driver that captures no waits for values runs captured calls as kernels", "[processes]") {
  // What a process has found once it keeps: only when this test is the first of its process can it tell.
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  if (fake_cuda_kernels() > 0) return sccl_test::skip(kNotFirst);
  const WithoutProcessService alone;
  fake_cuda_set_version(11080);
  CHECK(failures(run_device_world(Mode::processes, 2, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
          std::vector<int> value(3000, 1);
          Captured captured;
          std::string wrong = captured.capture(device, [&] { return allreduce(comm, value, device.stream()); });
          fake_cuda_reset_calls();
          for (int turn = 0; turn < 3 && wrong.empty(); ++turn) {
            cuGraphLaunch(captured.executable, device.stream());
            device.synchronize();
            if (waiting_kernels().empty()) wrong += " the captured call was no kernel";
            fake_cuda_reset_calls();
            wrong += allreduce(comm, value, device.stream());
            device.synchronize();
            wrong += waiting_kernels();
            fake_cuda_reset_calls();
          }
          captured.destroy();
          return value[2999] == 64 ? wrong : wrong + " wrong sum " + std::to_string(value[2999]);
        })) == "");
  fake_cuda_set_version(13000);
}

TEST_CASE("one thread drives several ranks on one stream, ordered by streams") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  const OnDevice device;
  // Ranks of one thread meet in a group.
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, std::vector<int>{0, 0}.data()) == ncclSuccess);
  std::vector<int> data[2] = {std::vector<int>(5000, 1), std::vector<int>(5000, 2)};
  for (int round = 0; round < 3; ++round) {
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int rank = 0; rank < 2; ++rank) CHECK(allreduce(comms[rank], data[rank], nullptr) == "");
    REQUIRE(ncclGroupEnd() == ncclSuccess);
  }
  cuStreamSynchronize(nullptr);
  for (const auto& result : data) CHECK(std::count(result.begin(), result.end(), 12) == 5000);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("several communicators and streams, and parts of a communicator, stay apart where streams order calls") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  CHECK(failures(
            run_device_world(Mode::threads, 4, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
              ncclComm_t half = nullptr;
              if (ncclCommSplit(comm, rank % 2, rank, &half, nullptr) != ncclSuccess) return ncclGetLastError(nullptr);
              void* other = nullptr;
              cuStreamCreate(&other, 1);
              const auto second = static_cast<cudaStream_t>(other);
              std::vector<int> all(3000, 1), part(3000, 1);
              std::string wrong;
              for (int turn = 0; turn < 4; ++turn) {
                wrong += allreduce(comm, all, turn % 2 == 0 ? device.stream() : second);
                wrong += allreduce(half, part, device.stream());
              }
              device.synchronize();
              cuStreamSynchronize(other);
              cuStreamDestroy_v2(other);
              ncclCommDestroy(half);
              if (std::count(all.begin(), all.end(), 256) != 3000)
                wrong += " wrong sum of all " + std::to_string(all[0]);
              if (std::count(part.begin(), part.end(), 16) != 3000)
                wrong += " wrong sum of a half " + std::to_string(part[0]);
              return wrong;
            })) == "");
}

TEST_CASE("what streams used is given back, and the caller's device is as before") {
  const Setting path("SCCL_DEVICE_PATH", "streams");
  { const OnDevice warm_up; }
  const std::string before = fake_cuda_live_text();
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
          void* mine = nullptr;
          cuCtxGetCurrent(&mine);
          cuCtxSetCurrent(nullptr);  // a call needs no current device
          std::string wrong = run_cases(rank, 2, comm, {100});
          void* now = &mine;
          cuCtxGetCurrent(&now);
          if (now != nullptr) wrong += " a call left a device current";
          cuCtxSetCurrent(mine);
          return wrong;
        })) == "");
  CHECK(std::string(fake_cuda_live_text()) == before);
}

TEST_CASE("where streams cannot wait for values kernels serve, and one line says so", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const WithoutProcessService alone;
  const std::string log = std::filesystem::temp_directory_path() / ("sccl-streams-" + std::to_string(::getpid()));
  const Setting level("NCCL_DEBUG", "INFO");
  const Setting file("NCCL_DEBUG_FILE", log.c_str());
  const auto told = [&] {
    std::ifstream lines(log);
    int count = 0;
    for (std::string line; std::getline(lines, line);)
      count += line.find("no calls are ordered by streams") != std::string::npos;
    return count;
  };
  const auto world = [&] {
    return failures(
        run_device_world(Mode::processes, 2, [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
          fake_cuda_reset_calls();
          const std::string wrong = run_cases(rank, 2, comm, {100});
          return wrong + (waiting_kernels().empty() ? " no kernel ran" : "");
        }));
  };
  fake_cuda_set_stream_values(0);
  CHECK(world() == "");
  CHECK(told() == 1);
  fake_cuda_set_stream_values(1);
  // A rank that cannot have what the path needs makes all do without.
  fake_cuda_fail("cuMemHostRegister_v2", 0, 1, 801);
  CHECK(world() == "");
  CHECK(told() == 2);
  fake_cuda_reset_calls();
  std::filesystem::remove(log);
}

TEST_CASE("a process service is known by the driver, or by the daemon's traces") {
  const OnDevice current;
  const auto device = sccl::gpu::current_device();
  REQUIRE(device);
  CHECK(sccl::gpu::runs_beside_other_processes(*device));
  fake_cuda_set_process_service(0);
  CHECK_FALSE(sccl::gpu::runs_beside_other_processes(*device));
  fake_cuda_set_process_service(-1);
  const auto folder = std::filesystem::temp_directory_path() / ("sccl-service-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const Setting pipe("CUDA_MPS_PIPE_DIRECTORY", folder.c_str());
  CHECK_FALSE(sccl::gpu::runs_beside_other_processes(*device));
  std::ofstream(folder / "control") << "";
  CHECK_FALSE(sccl::gpu::runs_beside_other_processes(*device));
  std::ofstream(folder / "nvidia-cuda-mps-control.pid") << ::getpid();
  CHECK(sccl::gpu::runs_beside_other_processes(*device));
  std::ofstream(folder / "nvidia-cuda-mps-control.pid") << 0x3fffffff;  // of nobody
  CHECK_FALSE(sccl::gpu::runs_beside_other_processes(*device));
  std::filesystem::remove_all(folder);
  fake_cuda_set_process_service(1);
}
