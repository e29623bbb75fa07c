// Collectives and transfers on the device: the whole way from init over kernels on streams to the results.
#include <algorithm>
#include <catch2/catch.hpp>
#include <mutex>

#include "gpu/device_world.h"
#include "gpu/failures.h"

using namespace api_test;
using namespace gpu_test;

namespace {

// A call on a stream that is held up, a call on one that is made after that was destroyed and has its handle: the
// second call needs what the first one gives.
std::string call_on_reused_handle(ncclComm_t comm) {
  std::vector<int> first(3000, 1), second(3000, 0), third(3000, 0);
  unsigned* word = nullptr;
  void *one = nullptr, *other = nullptr, *handle = nullptr;
  {
    const Spared spared;
    cuMemHostAlloc(reinterpret_cast<void**>(&word), 64, 3);
  }
  static std::mutex streams;  // no other rank's thread takes a handle that is free for a moment
  {
    const std::lock_guard lock(streams);
    cuStreamCreate(&one, 1);
  }
  cuStreamWaitValue32_v2(one, reinterpret_cast<unsigned long long>(word), 1, 1);
  const auto reduce = [&](const std::vector<int>& in, std::vector<int>& out, void* stream) {
    return ncclAllReduce(in.data(), out.data(), in.size(), ncclInt, ncclSum, comm, static_cast<cudaStream_t>(stream));
  };
  if (reduce(first, second, one) != ncclSuccess) return told();
  {
    const std::lock_guard lock(streams);
    handle = one;
    cuStreamDestroy_v2(one);
    cuStreamCreate(&other, 1);
  }
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
  });
  const ncclResult_t result = reduce(second, third, other);
  later.join();
  cuStreamSynchronize(other);
  {
    const Spared spared;
    cuMemFreeHost(word);
  }
  cuStreamDestroy_v2(other);
  if (result != ncclSuccess) return told();
  if (other != handle) return "the handle is another one";
  return std::count(third.begin(), third.end(), 4) == 3000 ? "" : "the second call gave " + std::to_string(third[0]);
}

}  // namespace

TEST_CASE("all collectives give the right results on a device, as threads and as processes") {
  for (const Mode mode : modes())
    for (const int ranks : {1, 2, 3}) {
      INFO(name(mode) << " " << ranks);
      const long before = fake_cuda_kernels();
      CHECK(failures(run_device_world(mode, ranks, [&](int rank, ncclComm_t comm, const OnDevice&) {
              return run_cases(rank, ranks, comm, {1, 3, 100, 1000});
            })) == "");
      if (mode == Mode::threads) CHECK(fake_cuda_kernels() > before);
    }
}

TEST_CASE("large calls are cut into channels and slices on a device") {
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
            const TypeInfo* type = nullptr;
            for (const TypeInfo& known : types())
              if (known.type == ncclFloat) type = &known;
            for (const KindInfo& kind : kinds()) {
              Case test{&kind, type, Op::sum, 300001, false, 0, 1};
              if (std::string wrong = run_case(test, rank, 2, comm); !wrong.empty()) return wrong;
            }
            return "";
          })) == "");
}

TEST_CASE("every type and operation reduces on a device") {
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
          for (const TypeInfo& type : types())
            for (const Op op : kOps) {
              Case test{&kinds()[0], &type, op, 700, false, 0, 0};
              if (std::string wrong = run_case(test, rank, 2, comm); !wrong.empty()) return wrong;
            }
          return "";
        })) == "");
}

TEST_CASE("transfers of all sizes meet on a device, empty ones and those to self too") {
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 3, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{40000}, std::size_t{1000000}}) {
              std::vector<std::vector<unsigned char>> in(3), out(3);
              ncclGroupStart();
              for (int peer = 0; peer < 3; ++peer) {
                // Sizes differ by pair: each takes channels of its own number.
                const std::size_t sent = count / static_cast<std::size_t>(1 + rank + peer);
                in[peer].assign(sent + 1, static_cast<unsigned char>(10 * rank + peer));
                out[peer].assign(sent + 1, 0xff);
                if (ncclSend(in[peer].data(), sent, ncclUint8, peer, comm, device.stream()) != ncclSuccess ||
                    ncclRecv(out[peer].data(), sent, ncclUint8, peer, comm, device.stream()) != ncclSuccess)
                  return ncclGetLastError(nullptr);
              }
              if (ncclGroupEnd() != ncclSuccess) return ncclGetLastError(nullptr);
              device.synchronize();
              for (int peer = 0; peer < 3; ++peer) {
                const std::size_t sent = out[peer].size() - 1;
                for (std::size_t i = 0; i < sent; ++i)
                  if (out[peer][i] != 10 * peer + rank)
                    return "wrong byte " + std::to_string(i) + " of " + std::to_string(sent);
                if (out[peer][sent] != 0xff) return "wrote beyond the end";
              }
            }
            return "";
          })) == "");
}

TEST_CASE("every planner's schedules run on a device, in slots, in flagged words and in flagged lines", "[slow]") {
  for (const char* planner : {"ring", "recursive", "binomial", "all-pairs", "one-hop"})
    for (const char* protocol : {"simple", "ll", "ll128"}) {
      INFO(planner << " " << protocol);
      const Setting algorithm("SCCL_ALGO", planner);
      const Setting words("SCCL_PROTO", protocol);
      CHECK(failures(run_device_world(Mode::threads, 4, [&](int rank, ncclComm_t comm, const OnDevice&) {
              // Eight threads play a block of lines: fewer elements, which are several messages all the same.
              return run_cases(rank, 4, comm, {33, std::string(protocol) == "ll128" ? 5000u : 20000u});
            })) == "");
    }
}

TEST_CASE("named links are kept to on a device") {
  const Setting links("SCCL_TOPO", "dgx1v");
  CHECK(failures(run_device_world(Mode::threads, 4, [&](int rank, ncclComm_t comm, const OnDevice&) {
          return run_cases(rank, 4, comm, {100, 5000});
        })) == "");
}

// Kernels get the program of their own rank alone, streams those of all ranks.
TEST_CASE("schedules by levels run on a device, whether kernels or streams order them") {
  const Setting links("SCCL_TOPO", "2*pcie4");
  const Setting algorithm("SCCL_ALGO", "levels");
  for (const char* const path : {"kernels", "streams"}) {
    INFO(path);
    const Setting by("SCCL_DEVICE_PATH", path);
    CHECK(failures(run_device_world(Mode::threads, 8, [&](int rank, ncclComm_t comm, const OnDevice&) {
            return run_cases(rank, 8, comm, {100, 5000});
          })) == "");
  }
}

TEST_CASE("more lanes than blocks take turns") {
  // The fake has 8 multiprocessors: with 6 ranks each has one block.
  CHECK(failures(run_device_world(Mode::threads, 6, [&](int rank, ncclComm_t comm, const OnDevice&) {
          return run_cases(rank, 6, comm, {100, 5000});
        })) == "");
}

TEST_CASE("a call on a stream that has a destroyed stream's handle comes after that one's work") {
  const Setting limit("SCCL_TIMEOUT_MS", "10000");
  fake_cuda_set_connections(32);
  for (const char* const path : {"kernels", "streams"})
    for (const int devices : {1, 2}) {  // events are recorded late where ranks share a device, else at once
      INFO(path << " " << devices);
      const Setting by("SCCL_DEVICE_PATH", path);
      CHECK(failures(run_device_world(
                Mode::threads, 2, [&](int, ncclComm_t comm, const OnDevice&) { return call_on_reused_handle(comm); },
                devices)) == "");
    }
  fake_cuda_set_connections(8);
}

TEST_CASE("one thread drives ranks of a device on the default stream and on one that it waits for") {
  const Setting limit("SCCL_TIMEOUT_MS", "10000");
  const OnDevice device;
  ncclComm_t comms[2];
  void* blocking = nullptr;
  cuStreamCreate(&blocking, 0);
  REQUIRE(ncclCommInitAll(comms, 2, std::vector<int>{0, 0}.data()) == ncclSuccess);
  std::vector<float> data[2] = {std::vector<float>(5000, 1), std::vector<float>(5000, 2)};
  for (int round = 0; round < 3; ++round) {
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int rank = 0; rank < 2; ++rank)
      CHECK(reduce(comms[rank], static_cast<cudaStream_t>((rank + round) % 2 == 0 ? nullptr : blocking), data[rank],
                   5000) == "");
    REQUIRE(ncclGroupEnd() == ncclSuccess);
  }
  cuStreamSynchronize(nullptr);
  for (const auto& result : data) CHECK(std::count(result.begin(), result.end(), 12.0f) == 5000);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
  cuStreamDestroy_v2(blocking);
}

TEST_CASE("one thread drives several ranks of a device on one stream") {
  const OnDevice device;
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, std::vector<int>{0, 0}.data()) == ncclSuccess);
  std::vector<float> in[2] = {std::vector<float>(5000, 1), std::vector<float>(5000, 2)};
  std::vector<float> out[2] = {std::vector<float>(5000), std::vector<float>(5000)};
  for (int round = 0; round < 3; ++round) {
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int rank = 0; rank < 2; ++rank)
      REQUIRE(ncclAllReduce(in[rank].data(), out[rank].data(), 5000, ncclFloat, ncclSum, comms[rank], nullptr) ==
              ncclSuccess);
    REQUIRE(ncclGroupEnd() == ncclSuccess);
    cuStreamSynchronize(nullptr);
    for (const auto& result : out) CHECK(std::count(result.begin(), result.end(), 3.0f) == 5000);
  }
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("calls of one communicator on several streams run in the order of the calls") {
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
          void* other = nullptr;
          cuStreamCreate(&other, 1);
          std::vector<int> value(3000, 1);
          for (int i = 0; i < 6; ++i) {
            const auto stream = i % 2 == 0 ? device.stream() : static_cast<cudaStream_t>(other);
            if (ncclAllReduce(value.data(), value.data(), value.size(), ncclInt32, ncclSum, comm, stream) !=
                ncclSuccess)
              return ncclGetLastError(nullptr);
          }
          cuStreamSynchronize(other);
          device.synchronize();
          cuStreamDestroy_v2(other);
          return std::count(value.begin(), value.end(), 64) == 3000 ? "" : "wrong sum " + std::to_string(value[0]);
        })) == "");
}

// As NCCL orders them: after the earlier work on all streams of the group, and before the later work on each.
TEST_CASE("a group's calls on several streams are as if posted on each of them") {
  for (const bool sends : {false, true}) {
    INFO((sends ? "an AllReduce and transfers" : "two AllReduces"));
    CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) {
            unsigned* held = nullptr;
            void* other = nullptr;
            {
              const Spared spared;
              cuMemHostAlloc(reinterpret_cast<void**>(&held), 64, 3);
            }
            *held = 0;
            cuStreamCreate(&other, 1);
            const auto second_stream = static_cast<cudaStream_t>(other);
            std::vector<int> first(300, 1), second(300000, rank), result(second.size(), 7);
            std::vector<int> later[2] = {result, result};
            cuStreamWaitValue32_v2(other, reinterpret_cast<unsigned long long>(held), 1, 1);
            // What the first call is to add comes on the second call's stream.
            const std::vector<int> added(first.size(), 3);
            cuMemcpyDtoDAsync_v2(reinterpret_cast<unsigned long long>(first.data()),
                                 reinterpret_cast<unsigned long long>(added.data()), 4 * first.size(), other);
            ncclGroupStart();
            ncclAllReduce(first.data(), first.data(), first.size(), ncclInt32, ncclSum, comm, device.stream());
            if (sends) {
              ncclSend(second.data(), second.size(), ncclInt32, 1 - rank, comm, second_stream);
              ncclRecv(result.data(), result.size(), ncclInt32, 1 - rank, comm, second_stream);
            } else {
              ncclAllReduce(second.data(), result.data(), second.size(), ncclInt32, ncclSum, comm, second_stream);
            }
            std::string wrong = ncclGroupEnd() == ncclSuccess ? "" : told();
            void* const streams[2] = {device.stream(), other};
            for (int i = 0; i < 2; ++i)
              cuMemcpyDtoDAsync_v2(reinterpret_cast<unsigned long long>(later[i].data()),
                                   reinterpret_cast<unsigned long long>(result.data()), 4 * result.size(), streams[i]);
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            __atomic_store_n(held, 1, __ATOMIC_SEQ_CST);
            const int wanted = sends ? 1 - rank : 1;
            for (const int i : {1, 0}) {
              cuStreamSynchronize(streams[i]);
              if (std::count(later[i].begin(), later[i].end(), wanted) != 300000)
                wrong += "the later work on stream " + std::to_string(i) + " did not wait. ";
            }
            if (std::count(first.begin(), first.end(), 6) != 300) wrong += "a call did not wait for the other stream. ";
            cuStreamDestroy_v2(other);
            const Spared spared;
            cuMemFreeHost(held);
            return wrong;
          })) == "");
  }
}

TEST_CASE("copies keep the bits of what is no number, in every protocol") {
  for (const char* const protocol : {"simple", "ll", "ll128"}) {
    const Setting asked("SCCL_PROTO", protocol);
    for (const ncclDataType_t type : {ncclFloat16, ncclBfloat16, ncclFloat32}) {
      INFO(protocol << ", type " << type);
      CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) {
              std::vector<std::uint16_t> data(16);
              for (std::size_t i = 0; i < data.size(); ++i)
                data[i] = static_cast<std::uint16_t>(0xff80 + (type == ncclFloat16 ? 7 : 5) * (i + 1));
              const std::vector<std::uint16_t> wanted = data;
              if (rank == 1) std::fill(data.begin(), data.end(), std::uint16_t{0});
              const std::size_t count = type == ncclFloat32 ? 8 : 16;
              std::vector<std::uint16_t> all(32), copy(16);
              if (ncclBroadcast(data.data(), copy.data(), count, type, 0, comm, device.stream()) != ncclSuccess ||
                  ncclAllGather(copy.data(), all.data(), count, type, comm, device.stream()) != ncclSuccess)
                return told();
              device.synchronize();
              const bool kept = copy == wanted && std::equal(copy.begin(), copy.end(), all.begin()) &&
                                std::equal(copy.begin(), copy.end(), all.begin() + 16);
              return std::string(kept ? "" : "a NaN has other bits");
            })) == "");
    }
  }
}

TEST_CASE("a communicator that is split off uses the device too") {
  CHECK(failures(
            run_device_world(Mode::threads, 4, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
              ncclComm_t half = nullptr;
              if (ncclCommSplit(comm, rank % 2, rank, &half, nullptr) != ncclSuccess) return ncclGetLastError(nullptr);
              const long before = fake_cuda_kernels();
              std::vector<int> value(10, rank);
              if (ncclAllReduce(value.data(), value.data(), 10, ncclInt32, ncclSum, half, device.stream()) !=
                  ncclSuccess)
                return ncclGetLastError(nullptr);
              device.synchronize();
              ncclCommDestroy(half);
              if (fake_cuda_kernels() == before) return "no kernel ran";
              return value[0] == 2 * (rank % 2) + 2 ? "" : "wrong sum " + std::to_string(value[0]);
            })) == "");
}

TEST_CASE("everything is given back and the caller's device is as before") {
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

TEST_CASE("ncclMemAlloc gives memory of the current device, and of the host without one") {
  const OnDevice device;
  const std::string before = fake_cuda_live_text();
  void* memory = nullptr;
  REQUIRE(ncclMemAlloc(&memory, 100000) == ncclSuccess);
  CHECK(std::string(fake_cuda_live_text()) != before);
  CHECK(reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0);
  CHECK(ncclMemFree(memory) == ncclSuccess);
  CHECK(std::string(fake_cuda_live_text()) == before);
  fake_cuda_fail("cuMemCreate", 0, 1, 2);
  CHECK(ncclMemAlloc(&memory, 10) == ncclUnhandledCudaError);
  CHECK(memory == nullptr);
  void* context = nullptr;
  cuCtxGetCurrent(&context);
  cuCtxSetCurrent(nullptr);
  while (cuDevicePrimaryCtxRelease_v2(0) == 0) {
  }  // no device is in use
  const std::string without = fake_cuda_live_text();
  REQUIRE(ncclMemAlloc(&memory, 10) == ncclSuccess);
  CHECK(std::string(fake_cuda_live_text()) == without);
  CHECK(ncclMemFree(memory) == ncclSuccess);
  CHECK(ncclMemFree(nullptr) == ncclSuccess);
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxSetCurrent(context);
}

TEST_CASE("without virtual memory calls, handles carry memory between processes") {
  fake_cuda_set_vmm(0);
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [&](int rank, ncclComm_t comm, const OnDevice&) {
            return run_cases(rank, 2, comm, {100, 70000});
          })) == "");
  fake_cuda_set_vmm(1);
}

TEST_CASE("a call's configuration chooses its algorithm on a device and has its launch told by an event") {
  for (const char* const order : {"kernels", "streams"}) {
    INFO(order);
    const Setting engines("SCCL_COPY_ENGINE_BYTES", order[0] == 's' ? "1" : "0");
    CHECK(failures(
              run_device_world(Mode::threads, 2, [](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
                void* event = nullptr;
                cuEventCreate(&event, 2);
                ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
                config.launchCompletionEvent = static_cast<cudaEvent_t>(event);
                config.maxCTAs = 1;
                std::vector<float> values(1000, static_cast<float>(rank + 1));
                for (const char* const algorithm : {"Ring", "tree", "one-hop"}) {
                  config.algSelection = algorithm;
                  std::fill(values.begin(), values.end(), static_cast<float>(rank + 1));
                  if (ncclAllReduceConfig(values.data(), values.data(), values.size(), ncclFloat, ncclSum, comm,
                                          device.stream(), &config) != ncclSuccess)
                    return ncclGetLastError(comm);
                  device.synchronize();
                  if (cuEventQuery(event) != 0) return "the event was not recorded";
                  if (values != std::vector<float>(1000, 3)) return std::string("wrong sums by ") + algorithm;
                }
                config.algSelection = "NVLS";
                if (ncclAllReduceConfig(values.data(), values.data(), values.size(), ncclFloat, ncclSum, comm,
                                        device.stream(), &config) != ncclInvalidUsage)
                  return "an algorithm that is not there was not refused";
                cuEventDestroy_v2(event);
                return "";
              })) == "");
  }
}

TEST_CASE("ranks that give a call on a device different options are told so") {
  const auto results =
      run_device_world(Mode::threads, 2, [](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
        ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
        if (rank == 0) config.algSelection = "ring";
        std::vector<float> values(1000, 1);
        ncclAllReduceConfig(values.data(), values.data(), values.size(), ncclFloat, ncclSum, comm, device.stream(),
                            &config);
        device.synchronize();
        ncclResult_t error = ncclSuccess;
        ncclCommGetAsyncError(comm, &error);
        const std::string text = ncclGetLastError(comm);
        return error == ncclInvalidUsage && text.find("with options") != std::string::npos ? "" : text + " none";
      });
  CHECK(failures(results) == "");
}
