// What real drivers do to a library whose kernels wait for each other: calls that wait for the whole context, hardware
// queues, room for blocks, faults, streams that are nobody's. Each of these would be a hang on the first device.
#include <algorithm>
#include <barrier>
#include <catch2/catch.hpp>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "gpu/captured.h"
#include "gpu/failures.h"
#include "gpu/logged.h"

using namespace api_test;
using namespace gpu_test;

namespace {

constexpr std::chrono::seconds kLong{20};

void* new_stream(unsigned flags = 1) {
  void* stream = nullptr;
  if (cuStreamCreate(&stream, flags) != 0) throw std::runtime_error("no stream");  // ranks that are threads call this
  return stream;
}

// Whether all that the stream has now ends in time; a stream that does not is left as it is.
bool ends(void* stream, std::chrono::milliseconds within = kLong) {
  void* event = nullptr;
  cuEventCreate(&event, 2);
  cuEventRecord(event, stream);
  const auto limit = std::chrono::steady_clock::now() + within;
  while (cuEventQuery(event) != 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const bool done = cuEventQuery(event) == 0;
  cuEventDestroy_v2(event);
  return done;
}

std::string sum(ncclComm_t comm, void* stream, std::vector<float>& data) {
  return reduce(comm, static_cast<cudaStream_t>(stream), data, data.size());
}

// Runs it on a thread of its own; false when it has not ended in time.
bool returns(const std::function<void()>& action) {
  auto done = std::make_shared<std::promise<void>>();
  auto future = done->get_future();
  std::thread([done, action] {
    action();
    done->set_value();
  }).detach();
  return future.wait_for(kLong) == std::future_status::ready;
}

// All ranks in this thread.
std::vector<ncclComm_t> ranks_of_this_thread(std::vector<int> devices) {
  std::vector<ncclComm_t> comms(devices.size());
  REQUIRE(ncclCommInitAll(comms.data(), static_cast<int>(devices.size()), devices.data()) == ncclSuccess);
  return comms;
}

// What a stream waits for until the test lets it go.
class Barrier {
 public:
  Barrier() { REQUIRE(cuMemHostAlloc(&word_, 64, 3) == 0); }
  void stop(void* stream) const {
    REQUIRE(cuStreamWaitValue32_v2(stream, reinterpret_cast<unsigned long long>(word_), 1, 1) == 0);
  }
  void let_go() const { __atomic_store_n(static_cast<unsigned*>(word_), 1, __ATOMIC_SEQ_CST); }
  ~Barrier() { cuMemFreeHost(word_); }

 private:
  void* word_ = nullptr;
};

}  // namespace

// 1: calls that wait for the context
TEST_CASE("ranks of one thread prepare all their calls before the first kernel runs") {
  const OnDevice device;
  const auto comms = ranks_of_this_thread({0, 0});
  std::vector<double> data[2] = {std::vector<double>(70000, 1), std::vector<double>(70000, 2)};
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < 2; ++rank)
    for (const ncclRedOp_t op : {ncclMax, ncclSum})
      REQUIRE(ncclAllReduce(data[rank].data(), data[rank].data(), data[rank].size(), ncclDouble, op, comms[rank],
                            device.stream()) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  REQUIRE(ends(device.stream()));
  for (const auto& result : data) CHECK(std::count(result.begin(), result.end(), 4.0) == 70000);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("between init and the end no call allocates, frees or loads") {
  const std::vector<std::size_t> counts{1, 1000, 300000};
  std::atomic<int> looked{0};
  // Kernels are compiled once, and kept on disk.
  REQUIRE(failures(run_device_world(Mode::threads, 3, [&](int rank, ncclComm_t comm, const OnDevice&) {
            return run_cases(rank, 3, comm, counts);
          })) == "");
  CHECK(failures(run_device_world(Mode::threads, 3, [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
          static std::mutex mutex;
          static std::string first;
          {
            const std::lock_guard lock(mutex);
            if (first.empty()) fake_cuda_reset_calls();
            first = "seen";
          }
          std::string wrong = run_cases(rank, 3, comm, counts);
          const std::string calls = fake_cuda_calls();
          for (const char* call : {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost", "cuModuleLoad",
                                   "cuMemCreate", "cuMemUnmap", "cuMemsetD8", "cuMemHostRegister"})
            if (contains(calls, call)) wrong += std::string(call) + " was called";
          ++looked;
          while (looked < 3) std::this_thread::yield();  // whoever is first destroys its communicator next, which frees
          return wrong;
        })) == "");
}

TEST_CASE("more calls in flight than there is memory for wait for earlier ones, and allocate nothing") {
  std::atomic<int> made{0};
  CHECK(failures(
            run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
              std::vector<float> data(100, static_cast<float>(rank)), got(100, -1);
              if (rank == 0) fake_cuda_reset_calls();
              while (rank == 1 && made < 50) std::this_thread::yield();  // kernels of rank 0 wait for this rank by now
              for (int call = 0; call < 400; ++call) {
                ncclGroupStart();
                ncclSend(data.data(), data.size(), ncclFloat, 1 - rank, comm, device.stream());
                ncclRecv(got.data(), got.size(), ncclFloat, 1 - rank, comm, device.stream());
                if (ncclGroupEnd() != ncclSuccess) return told();
                if (rank == 0) ++made;
              }
              std::string wrong;
              if (!ends(device.stream())) wrong += "the calls do not end";
              if (got[99] != static_cast<float>(1 - rank)) wrong += "wrong data";
              if (contains(fake_cuda_calls(), "cuMemHostAlloc")) wrong += "memory was allocated";
              return wrong;
            })) == "");
}

TEST_CASE("a rank's first call may come while another rank's init is about to end") {
  for (int round = 0; round < 3; ++round)
    CHECK(failures(run_device_world(Mode::threads, 3, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
            std::vector<float> data(1000, 1);
            std::string wrong = sum(comm, device.stream(), data);
            if (!ends(device.stream())) wrong += "the first call does not end";
            return wrong;
          })) == "");
}

TEST_CASE("a communicator may be destroyed while another one's kernel waits for a rank") {
  std::atomic<int> destroyed{0}, launched{0};
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) {
          std::string wrong;
          ncclComm_t other = nullptr;
          if (ncclCommSplit(comm, 0, rank, &other, nullptr) != ncclSuccess) return told();
          std::vector<float> data(1000, 1);
          const auto call = [&] {
            wrong += sum(comm, device.stream(), data);
            ++launched;
          };
          const auto destroy = [&] {
            if (ncclCommDestroy(other) != ncclSuccess) wrong += told();
            ++destroyed;
          };
          if (rank == 0) {
            call();
            destroy();
          } else {
            while (launched == 0) std::this_thread::yield();
            destroy();
            call();
          }
          if (!ends(device.stream())) wrong += "the call does not end";
          return wrong;
        })) == "");
  CHECK(destroyed == 2);
}

// 2: no current context
TEST_CASE("a thread without a current context uses the device that the runtime would use") {
  void *before = nullptr, *primary = nullptr;
  fake_cuda_set_any_memory(1);
  cuInit(0);
  cuCtxGetCurrent(&before);
  REQUIRE(cuDevicePrimaryCtxRetain(&primary, 0) == 0);  // the program's runtime has done so in another thread
  const long kernels = fake_cuda_kernels();
  std::barrier both(2);  // what is live is looked at while no other thread allocates or frees
  CHECK(failures(run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
          cuCtxSetCurrent(nullptr);
          ncclComm_t comm = nullptr;
          if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) {
            both.arrive_and_drop();
            return told();
          }
          std::vector<float> data(100, 1);
          cuCtxSetCurrent(primary);
          void* const stream = new_stream();
          cuCtxSetCurrent(nullptr);
          std::string wrong = sum(comm, stream, data);
          cuCtxSetCurrent(primary);
          if (!ends(stream)) wrong += "the call does not end";
          cuStreamDestroy_v2(stream);
          cuCtxSetCurrent(nullptr);
          if (data[99] != 2) wrong += "wrong sum";
          both.arrive_and_wait();
          const std::string live = fake_cuda_live_text();
          void* memory = nullptr;
          if (rank == 0 && ncclMemAlloc(&memory, 1000) != ncclSuccess) wrong += told();
          if (rank == 0 && live == fake_cuda_live_text()) wrong += "ncclMemAlloc gave memory of the host";
          both.arrive_and_wait();
          if (rank == 1 && ncclMemAlloc(&memory, 1000) != ncclSuccess) wrong += told();
          ncclMemFree(memory);
          if (ncclCommDestroy(comm) != ncclSuccess) wrong += told();
          void* after = &comm;
          cuCtxGetCurrent(&after);
          if (after != nullptr) wrong += "a context was left current";
          return wrong;
        })) == "");
  CHECK(fake_cuda_kernels() > kernels);
  cuDevicePrimaryCtxRelease_v2(0);
  cuCtxSetCurrent(before);
}

// 6: hardware queues
TEST_CASE("one hardware queue serves the calls of a group's ranks, and those of ranks in threads of their own") {
  fake_cuda_set_connections(1);
  {
    const OnDevice device;
    const auto comms = ranks_of_this_thread({0, 0});
    void* const streams[2] = {new_stream(), new_stream()};
    std::vector<float> data[2] = {std::vector<float>(1000, 1), std::vector<float>(1000, 1)};
    ncclGroupStart();
    for (int rank = 0; rank < 2; ++rank)
      for (int call = 0; call < 3; ++call) CHECK(sum(comms[rank], streams[rank], data[rank]) == "");
    REQUIRE(ncclGroupEnd() == ncclSuccess);
    const bool ended = ends(streams[0]) && ends(streams[1]);
    if (!ended)
      for (ncclComm_t comm : comms) ncclCommAbort(comm);
    REQUIRE(ended);
    CHECK(data[1][999] == 8);
    for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
    for (void* const stream : streams) cuStreamDestroy_v2(stream);
  }
  std::atomic<int> launched{0};
  CHECK(failures(run_bare_world(Mode::threads, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
          const OnDevice device;
          ncclComm_t comm = nullptr;
          if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return told();
          std::vector<float> data(1000, 1);
          std::string wrong;
          void* const other = new_stream();
          for (int call = 0; call < 5 && wrong.empty(); ++call)
            wrong = sum(comm, call == 3 ? other : device.stream(), data);
          ++launched;
          while (launched < 3) std::this_thread::yield();  // the test's own event would hold up what stands behind it
          if (!ends(device.stream())) {
            wrong += "the calls do not end";
            ncclCommAbort(comm);
            return wrong;
          }
          if (data[0] != 243) wrong += "wrong sum";
          ncclCommDestroy(comm);
          cuStreamDestroy_v2(other);
          return wrong;
        })) == "");
  fake_cuda_set_connections(8);
}

TEST_CASE("a stream may be destroyed behind a call, and the next one may get its handle") {
  for (const int devices : {1, 2}) {  // ranks that share queues, and ranks that do not
    INFO(devices << " devices");
    CHECK(failures(run_device_world(
              Mode::threads, 2,
              [&](int, ncclComm_t comm, const OnDevice& device) {
                std::vector<float> data(1000, 1);
                std::string wrong;
                for (int call = 0; call < 4; ++call) {
                  void* const stream = new_stream();
                  wrong += sum(comm, stream, data);
                  cuStreamDestroy_v2(stream);
                }
                wrong += sum(comm, device.stream(), data);
                if (!ends(device.stream()) || data[999] != 32) wrong += "wrong sum";
                return wrong;
              },
              devices)) == "");
  }
  fake_cuda_set_devices(1);
}

// 7: room for blocks
TEST_CASE("kernels of three communicators fit on a device in whatever order they begin") {
  constexpr int kRanks = 3;
  constexpr std::size_t kMany = 3000000;  // for all channels, and more than their slots hold: nobody ends alone
  fake_cuda_set_devices(kRanks);
  CHECK(failures(run_device_world(
            Mode::threads, kRanks,
            [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
              ncclComm_t comms[kRanks] = {comm, nullptr, nullptr};
              for (int i = 1; i < kRanks; ++i)
                if (ncclCommSplit(comm, 0, rank, &comms[i], nullptr) != ncclSuccess) return told();
              std::vector<float> data[kRanks], got[kRanks];
              void* streams[kRanks];
              std::string wrong;
              for (int i = 0; i < kRanks; ++i) {
                data[i].assign(kMany, static_cast<float>(rank));
                got[i].assign(kMany, -1);
                streams[i] = new_stream();
              }
              // Device 0 begins with the first, device 1 with the second, and so on.
              for (int turn = 0; turn < kRanks; ++turn) {
                const int i = (rank + turn) % kRanks;
                const auto stream = static_cast<cudaStream_t>(streams[i]);
                ncclGroupStart();
                ncclSend(data[i].data(), data[i].size(), ncclFloat, (rank + 1) % kRanks, comms[i], stream);
                ncclRecv(got[i].data(), got[i].size(), ncclFloat, (rank + 2) % kRanks, comms[i], stream);
                if (ncclGroupEnd() != ncclSuccess) wrong += told();
                std::this_thread::sleep_for(std::chrono::milliseconds(300));
              }
              for (int i = 0; i < kRanks; ++i)
                if (wrong.empty() && !ends(streams[i])) wrong = "communicator " + std::to_string(i) + " does not end";
              for (int i = kRanks - 1; !wrong.empty() && i >= 0; --i) ncclCommAbort(comms[i]);
              if (!wrong.empty()) std::_Exit((std::fprintf(stderr, "%s\n", wrong.c_str()), 1));
              for (int i = 1; i < kRanks; ++i) ncclCommDestroy(comms[i]);
              for (void* const stream : streams) cuStreamDestroy_v2(stream);
              return wrong;
            },
            kRanks)) == "");
  fake_cuda_set_devices(1);
}

TEST_CASE("a kernel takes 24 blocks at most, or what the configuration or the environment says") {
  if (!logs_can_be_read()) return;
  fake_cuda_set_multiprocessors(132);
  const auto channels = [](int most, const char* environment) {
    return log_of("INIT", [&] {
      if (environment != nullptr) ::setenv("NCCL_MAX_CTAS", environment, 1);
      run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
        const OnDevice device;
        ncclComm_t comm = nullptr;
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        if (most > 0) config.maxCTAs = most;
        ncclCommInitRankConfig(&comm, 2, id, rank, &config);
        return ncclCommDestroy(comm) == ncclSuccess ? "" : told();
      });
      ::unsetenv("NCCL_MAX_CTAS");
    });
  };
  CHECK(contains(channels(0, nullptr), " 24 channels of "));
  CHECK(contains(channels(5, nullptr), " 5 channels of "));
  CHECK(contains(channels(5, "3"), " 3 channels of "));
  fake_cuda_set_multiprocessors(8);
}

// 8: faults
TEST_CASE("a device that has faulted is told, and its communicators can be destroyed") {
  for (const bool aborts : {false, true}) {
    INFO(aborts);
    std::atomic<bool> asked{false};
    const bool ended = returns([&] {
      const auto results = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
        const OnDevice device;
        ncclComm_t comm = nullptr;
        if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
        std::vector<float> data(1000, 1);
        std::string wrong;
        if (rank == 0) {
          wrong = sum(comm, device.stream(), data);  // waits for rank 1
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          fake_cuda_fault(0);
          if (const std::string error = async_error(comm); !contains(error, "illegal memory access"))
            wrong += "told: " + error;
          asked = true;
        }
        while (!asked) std::this_thread::yield();
        aborts ? ncclCommAbort(comm) : ncclCommDestroy(comm);
        return wrong;
      });
      CHECK(failures(results) == "");
    });
    REQUIRE(ended);
    fake_cuda_recover(0);
  }
}

// 9: captures and eager calls
TEST_CASE("a capture between two calls on different streams does not part them") {
  const OnDevice device;
  const auto comms = ranks_of_this_thread({0});
  void* const streams[3] = {new_stream(), new_stream(), new_stream()};
  std::vector<float> data[3] = {std::vector<float>(100, 1), std::vector<float>(100, 1), std::vector<float>(100, 1)};
  std::vector<float> out(100);
  const Barrier barrier;
  barrier.stop(streams[0]);
  const auto copy = [&](void* stream, int which) {
    return ncclAllReduce(data[which].data(), out.data(), 100, ncclFloat, ncclSum, comms[0],
                         static_cast<cudaStream_t>(stream)) == ncclSuccess
               ? ""
               : told();
  };
  CHECK(copy(streams[0], 0) == std::string());
  cuStreamBeginCapture_v2(streams[1], 1);
  CHECK(copy(streams[1], 1) == std::string());
  void* graph = nullptr;
  REQUIRE(cuStreamEndCapture(streams[1], &graph) == 0);
  CHECK(copy(streams[2], 2) == std::string());
  CHECK_FALSE(ends(streams[2], std::chrono::milliseconds(200)));
  barrier.let_go();
  CHECK(ends(streams[2]));
  CHECK(ends(streams[0]));
  cuGraphDestroy(graph);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
  for (void* const stream : streams) cuStreamDestroy_v2(stream);
}

TEST_CASE("a replay beside another call that no event orders ends with an error, not with wrong data") {
  std::atomic<bool> over{false};
  const auto results = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
    std::vector<float> data(1000, 1), other(1000, 1);
    Captured captured;
    std::string wrong = captured.capture(device, [&] { return sum(comm, device.stream(), data); });
    void* const beside = new_stream();
    if (rank == 0) {
      cuGraphLaunch(captured.executable, device.stream());  // waits for rank 1
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      wrong += sum(comm, beside, other);
    }
    const std::string error = rank == 0 ? async_error(comm) : "";
    if (rank == 0 && !contains(error, "at the same time")) wrong += "told: " + error;
    if (rank == 0) over = true;
    while (!over) std::this_thread::yield();
    ncclCommAbort(comm);
    if (!ends(beside) || !ends(device.stream())) wrong += "a kernel does not end";
    cuStreamDestroy_v2(beside);
    captured.destroy();
    return wrong;
  });
  CHECK(failures(results) == "");
}

// Copies of all streams stand in one line, where a copy behind a kernel that waits holds up those of others.
TEST_CASE("a rank that reads every result before its next call is not held up by another rank's copies") {
  std::atomic<int> made{0}, about_to_copy{0};
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) {
          std::vector<float> data(1000, 1), result(1000);
          const unsigned long bytes = data.size() * sizeof(float);
          std::string wrong = sum(comm, device.stream(), data);
          device.synchronize();
          ++made;
          while (made < 2) std::this_thread::yield();
          // Rank 1 copies its first result when rank 0 may have made the second call, and the copy behind it.
          if (rank == 1) {
            while (about_to_copy == 0) std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
          } else {
            about_to_copy = 1;
            wrong += sum(comm, device.stream(), data);
          }
          cuMemcpyDtoHAsync_v2(result.data(), reinterpret_cast<std::uintptr_t>(data.data()), bytes, device.stream());
          if (!ends(device.stream())) wrong += "a copy is held up";
          if (rank == 1) wrong += sum(comm, device.stream(), data);
          if (!ends(device.stream())) wrong += "a call is held up";
          if (data[999] != 4) wrong += "the sum is " + std::to_string(data[999]);
          return wrong;
        })) == "");
}

TEST_CASE("a rank's group of first calls is not held up by that of another rank, whose programs come first") {
  std::atomic<int> about_to_call{0};
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) {
          std::vector<std::vector<float>> data(4, std::vector<float>(5000, 1));
          if (rank == 1) {
            while (about_to_call == 0) std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
          }
          about_to_call = 1;
          ncclGroupStart();
          std::string wrong = sum(comm, device.stream(), data[0]);
          for (const int root : {0, 1})
            if (ncclReduce(data[1].data(), data[2].data(), data[1].size(), ncclFloat, ncclSum, root, comm,
                           device.stream()) != ncclSuccess)
              wrong += told();
          wrong += sum(comm, device.stream(), data[3]);
          if (ncclGroupEnd() != ncclSuccess) wrong += told();
          if (!ends(device.stream())) wrong += "a call is held up";
          for (const int at : {0, 2, 3})
            if (data[static_cast<std::size_t>(at)][4999] != 2) wrong += "a sum is wrong";
          return wrong;
        })) == "");
}

// 10: non-blocking communicators
TEST_CASE("calls of a non-blocking communicator are on the caller's per-thread default stream when they return") {
  void* const per_thread = reinterpret_cast<void*>(2);
  CHECK(failures(run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
          const OnDevice device;
          ncclComm_t comm = nullptr;
          ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
          config.blocking = 0;
          ncclResult_t state = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
          while (state == ncclInProgress) ncclCommGetAsyncError(comm, &state);
          if (state != ncclSuccess) return told();
          std::vector<float> data(1000, 1);
          std::string wrong;
          for (int call = 0; call < 4; ++call)
            if (const auto result = ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum, comm,
                                                  static_cast<cudaStream_t>(per_thread));
                result != ncclSuccess)
              wrong += "result " + std::to_string(result);
          cuStreamSynchronize(per_thread);
          if (data[999] != 16) wrong += "the stream had ended, but the sum is " + std::to_string(data[999]);
          ncclCommFinalize(comm);
          do ncclCommGetAsyncError(comm, &state);
          while (state == ncclInProgress);
          ncclCommDestroy(comm);
          return wrong;
        })) == "");
}

// Captures beside the default stream
TEST_CASE("a call on the default stream beside another thread's capture is refused, and nothing is lost") {
  const OnDevice device;
  const auto comms = ranks_of_this_thread({0});
  void* const blocking = new_stream(0);
  std::vector<float> data(100, 3);
  cuStreamBeginCapture_v2(blocking, 2);
  std::thread([&] {
    const OnDevice here;
    CHECK(contains(sum(comms[0], nullptr, data), "is being captured"));
  }).join();
  void* graph = nullptr;
  CHECK(cuStreamEndCapture(blocking, &graph) == 0);  // it was not spoilt
  cuGraphDestroy(graph);
  CHECK(sum(comms[0], nullptr, data) == "");
  CHECK(ends(nullptr));
  CHECK(ncclCommDestroy(comms[0]) == ncclSuccess);
  cuStreamDestroy_v2(blocking);
}
