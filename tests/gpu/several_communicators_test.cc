// Groups with calls of several communicators on streams that each rank chooses for itself.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <thread>

#include "gpu/captured.h"

using namespace api_test;
using namespace gpu_test;

namespace {

constexpr int kRanks = 3;
constexpr std::size_t kComms = 3;
constexpr int kRounds = 12;

enum class Order { same, own };

// In each group one AllReduce of each communicator; or two, in an order that the ranks share, as some of these may come
// after one another on a stream.
std::string run_groups(unsigned seed, int rank, ncclComm_t first, Order order) {
  std::vector<ncclComm_t> comms{first};
  std::string wrong;
  while (comms.size() < kComms && wrong.empty()) {
    comms.push_back(nullptr);
    if (ncclCommSplit(first, 0, rank, &comms.back(), nullptr) != ncclSuccess) wrong = ncclGetLastError(nullptr);
  }
  std::mt19937 random(seed * 100 + static_cast<unsigned>(rank));
  std::mt19937 alike(seed);
  std::vector<void*> streams(1 + random() % 3);
  for (void*& stream : streams) cuStreamCreate(&stream, 1);
  std::vector<std::vector<int>> data(kComms, std::vector<int>(3000, rank));
  std::vector<std::size_t> turns{0, 1, 2};
  for (int round = 0; round < kRounds && wrong.empty(); ++round) {
    if (order == Order::own) std::shuffle(turns.begin(), turns.end(), random);
    const std::size_t calls = order == Order::own || round < kRounds / 2 ? 1 : 1 + alike() % 2;
    ncclGroupStart();
    for (std::size_t call = 0; call < calls; ++call)
      for (const std::size_t at : turns)
        ncclAllReduce(data[at].data(), data[at].data(), data[at].size(), ncclInt32, ncclMax, comms[at],
                      static_cast<cudaStream_t>(streams[random() % streams.size()]));
    if (ncclGroupEnd() != ncclSuccess) wrong += ncclGetLastError(nullptr);
  }
  for (void* const stream : streams) cuStreamSynchronize(stream);
  for (std::size_t at = 0; at < comms.size(); ++at) {
    if (std::count(data[at].begin(), data[at].end(), kRanks - 1) != 3000) wrong += " wrong data";
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(comms[at], &state);
    if (state != ncclSuccess) wrong += std::string(" ") + ncclGetLastError(comms[at]);
  }
  for (std::size_t at = 1; at < comms.size(); ++at)
    if (ncclCommDestroy(comms[at]) != ncclSuccess) wrong += ncclGetLastError(nullptr);
  for (void* const stream : streams) cuStreamDestroy_v2(stream);
  return wrong;
}

// On the stream, the bytes of `values` become 1, but not before some time has passed.
class LateFill {
 public:
  LateFill(void* stream, std::vector<int>& values) {
    const Spared spared;
    cuMemHostAlloc(reinterpret_cast<void**>(&word_), 64, 3);
    cuStreamWaitValue32_v2(stream, reinterpret_cast<unsigned long long>(word_), 1, 1);
    cuMemsetD8Async(reinterpret_cast<unsigned long long>(values.data()), 1, values.size() * sizeof(int), stream);
    later_ = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      __atomic_store_n(word_, 1, __ATOMIC_SEQ_CST);
    });
  }
  ~LateFill() {
    later_.join();
    const Spared spared;
    cuMemFreeHost(word_);
  }
  LateFill(const LateFill&) = delete;
  LateFill& operator=(const LateFill&) = delete;

 private:
  unsigned* word_ = nullptr;
  std::thread later_;
};

std::string run(Mode mode, unsigned seed, Order order) {
  return failures(run_device_world(
      mode, kRanks, [&](int rank, ncclComm_t comm, const OnDevice&) { return run_groups(seed, rank, comm, order); }));
}

}  // namespace

// Ranks of one process share 8 hardware queues and the device's room for blocks. Calls that streams order need queues
// that ranks do not share; kernels in orders that differ need room for all at a time.
TEST_CASE("a group of several communicators on streams that ranks choose for themselves ends") {
  const Setting limit("SCCL_TIMEOUT_MS", "10000");
  for (const Order order : {Order::same, Order::own})
    for (const Mode mode : modes())
      for (const char* const by : {"kernels", "streams"})
        for (unsigned seed = 1; seed <= 2; ++seed) {
          if (mode == Mode::threads && (order == Order::own || std::string(by) == "streams")) continue;
          INFO(by << " " << name(mode) << " " << seed << (order == Order::own ? " in an order of its own" : ""));
          const Setting path("SCCL_DEVICE_PATH", by);
          CHECK(run(mode, seed, order) == "");
        }
}

TEST_CASE("transfers of a group come after what is on each of their streams, and before what follows there") {
  fake_cuda_set_connections(32);
  for (const bool sends_first : {false, true})
    CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) {
            std::vector<int> mine(1000, rank + 5), theirs(1000, 0);
            void* other = nullptr;
            cuStreamCreate(&other, 1);
            const auto send = [&] { ncclSend(mine.data(), 1000, ncclInt, 1 - rank, comm, device.stream()); };
            std::string wrong;
            {
              const LateFill fill(other, theirs);
              ncclGroupStart();
              if (sends_first) send();
              ncclRecv(theirs.data(), 1000, ncclInt, 1 - rank, comm, static_cast<cudaStream_t>(other));
              if (!sends_first) send();
              if (ncclGroupEnd() != ncclSuccess) wrong = ncclGetLastError(nullptr);
              cuStreamSynchronize(other);
              if (std::count(theirs.begin(), theirs.end(), 6 - rank) != 1000)
                wrong += "received " + std::to_string(theirs[0]);
              device.synchronize();
            }
            cuStreamDestroy_v2(other);
            return wrong;
          })) == "");
  fake_cuda_set_connections(8);
}

TEST_CASE("calls of ranks that share one of their streams come after what is on the others, too") {
  fake_cuda_set_connections(32);
  const OnDevice device;
  ncclComm_t comms[2];
  void* other = nullptr;
  cuStreamCreate(&other, 1);
  REQUIRE(ncclCommInitAll(comms, 2, std::vector<int>{0, 0}.data()) == ncclSuccess);
  std::vector<int> first(1000, 1), in(1000, 0), out[2] = {std::vector<int>(1000, 0), std::vector<int>(1000, 0)};
  {
    const LateFill fill(other, in);
    ncclGroupStart();
    for (int rank = 0; rank < 2; ++rank) {
      ncclAllReduce(first.data(), out[rank].data(), 1000, ncclInt, ncclSum, comms[rank], device.stream());
      ncclAllReduce(in.data(), out[rank].data(), 1000, ncclInt, ncclSum, comms[rank], static_cast<cudaStream_t>(other));
    }
    CHECK(ncclGroupEnd() == ncclSuccess);
    cuStreamSynchronize(other);
    for (const auto& result : out) CHECK(std::count(result.begin(), result.end(), 0x02020202) == 1000);
    device.synchronize();
  }
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
  cuStreamDestroy_v2(other);
  fake_cuda_set_connections(8);
}

TEST_CASE("a group of two communicators on one stream is captured, and its graphs are launched in turns") {
  for (const Mode mode : modes())
    for (const char* const by : {"kernels", "streams"}) {
      INFO(by << " " << name(mode));
      const Setting path("SCCL_DEVICE_PATH", by);
      const Setting limit("SCCL_TIMEOUT_MS", "10000");
      CHECK(failures(run_device_world(mode, 2, [&](int rank, ncclComm_t first, const OnDevice& device) -> std::string {
              ncclComm_t second = nullptr;
              if (ncclCommSplit(first, 0, rank, &second, nullptr) != ncclSuccess) return ncclGetLastError(nullptr);
              const ncclComm_t comms[2] = {first, second};
              std::vector<int> data[2] = {std::vector<int>(3000, 1), std::vector<int>(3000, 1)};
              std::string wrong;
              Captured graphs[2];
              for (Captured& graph : graphs)
                wrong += graph.capture(device, [&]() -> std::string {
                  ncclGroupStart();
                  for (int at : {0, 1})
                    ncclAllReduce(data[at].data(), data[at].data(), 3000, ncclInt32, ncclSum, comms[at],
                                  device.stream());
                  return ncclGroupEnd() == ncclSuccess ? "" : ncclGetLastError(nullptr);
                });
              if (!wrong.empty()) return wrong;
              for (int turn = 0; turn < 6; ++turn) cuGraphLaunch(graphs[turn % 2].executable, device.stream());
              device.synchronize();
              ncclCommDestroy(second);
              for (int turn = 0; turn < 2; ++turn) cuGraphLaunch(graphs[turn % 2].executable, device.stream());
              device.synchronize();
              for (const auto& one : data)
                if (std::count(one.begin(), one.end(), 256) != 3000) wrong += " wrong sum " + std::to_string(one[0]);
              for (Captured& graph : graphs) graph.destroy();
              return wrong;
            })) == "");
    }
}
