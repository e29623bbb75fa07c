// Which blocks fit on a device together: where the fake puts them, and that kernels of two communicators do not wait
// for each other's room.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "gpu/failures.h"
#include "gpu/multiprocessors.h"

using namespace api_test;
using namespace gpu_test;
using fake::BlockNeeds;

namespace {

constexpr BlockNeeds kUsual{1, 256, 32768, 25 * 1024};
constexpr BlockNeeds kWide{1, 512, 65536, 25 * 1024};

struct Multiprocessors {
  explicit Multiprocessors(int count) { fake_cuda_set_multiprocessors(count); }
  ~Multiprocessors() { fake_cuda_set_multiprocessors(8); }
  Multiprocessors(const Multiprocessors&) = delete;
  Multiprocessors& operator=(const Multiprocessors&) = delete;
};

constexpr std::size_t kMany = 1 << 18;  // elements: parts of them are long enough for wide blocks

void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

void await(const std::atomic<bool>& sign) {
  while (!sign) settle();
}

// Blocks of one communicator's call wait on device 0 while those of the next one's call begin: device 1 has the calls
// in the opposite order. They end only if blocks of every rank find room beside all that wait.
struct Crossed {
  int ranks_of_device_0;
  int most_blocks;  // of a rank
  int communicators;
  int waiting;  // blocks on device 0 of all communicators but the last one
};

std::string run_crossed(const Crossed& crossed, int rank, ncclComm_t first, std::atomic<bool>& is_first_waiting) {
  const bool on_first = rank < crossed.ranks_of_device_0;
  std::vector<ncclComm_t> comms{first};
  while (static_cast<int>(comms.size()) < crossed.communicators) {
    ncclComm_t next = nullptr;
    if (ncclCommSplit(first, 0, rank, &next, nullptr) != ncclSuccess) return told();
    comms.push_back(next);
  }
  std::string wrong;
  std::vector<std::vector<float>> data(comms.size(), std::vector<float>(kMany, 1));
  std::vector<void*> streams(comms.size());
  for (void*& stream : streams) cuStreamCreate(&stream, 1);
  if (!on_first) await(is_first_waiting);
  for (std::size_t turn = 0; turn < comms.size() && wrong.empty(); ++turn) {
    const std::size_t i = on_first ? turn : comms.size() - 1 - turn;
    wrong = reduce(comms[i], static_cast<cudaStream_t>(streams[on_first ? i : 0]), data[i], kMany);
    if (on_first && turn + 2 == comms.size())
      while (fake_cuda_blocks(0) < crossed.waiting) settle();
    if (rank == 0 && turn + 2 == comms.size()) is_first_waiting = true;
  }
  for (void* const stream : streams) cuStreamSynchronize(stream);
  for (const auto& sum : data)
    if (sum[kMany - 1] != static_cast<float>(crossed.ranks_of_device_0 + 1)) wrong += "a sum is wrong";
  for (void* const stream : streams) cuStreamDestroy_v2(stream);
  for (std::size_t i = 1; i < comms.size(); ++i) ncclCommDestroy(comms[i]);
  return wrong;
}

}  // namespace

TEST_CASE("a wide block needs a multiprocessor of its own, and halves of two are none") {
  fake::Multiprocessors device(4);
  int at[4];
  for (int i = 0; i < 3; ++i) at[i] = device.place(kUsual).value();
  CHECK((at[0] == 0 && at[1] == 1 && at[2] == 2));  // they spread
  CHECK(device.place(kWide) == 3);
  CHECK_FALSE(device.place(kWide));  // five halves of eight are taken, and three are free
  CHECK(device.place(kUsual) == 0);
  device.end(at[1], kUsual);
  CHECK(device.place(kWide) == 1);
  CHECK(device.blocks() == 5);
}

TEST_CASE("threads, shared memory and the number of blocks count as registers do") {
  for (const auto& [block, most] : {std::pair{BlockNeeds{1, 1024, 1024, 0}, 2}, std::pair{BlockNeeds{1, 32, 32, 0}, 32},
                                    std::pair{BlockNeeds{1, 32, 32, 100 * 1024}, 2}}) {
    fake::Multiprocessors device(1);
    int placed = 0;
    while (device.place(block)) ++placed;
    CHECK(placed == most);
  }
}

TEST_CASE("blocks of several communicators find room beside one another, though their calls wait in different orders") {
  const Multiprocessors few(8);
  for (const Crossed& crossed : {
           Crossed{1, 2, 4, 3 * 2},   // wide ones: each takes a multiprocessor
           Crossed{1, 24, 3, 2 * 4},  // four of these would not fit if they were wide
           Crossed{4, 24, 3, 2 * 4},  // nor would two, beside a third: here ranks share the device
       }) {
    INFO(crossed.ranks_of_device_0 << " ranks, " << crossed.most_blocks << " blocks");
    std::atomic<bool> is_first_waiting{false};
    const int ranks = crossed.ranks_of_device_0 + 1;
    CHECK(failures(run_bare_world(Mode::threads, ranks, [&](int rank, const ncclUniqueId& id) -> std::string {
            fake_cuda_set_devices(2);
            const OnDevice device(rank < crossed.ranks_of_device_0 ? 0 : 1);
            ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
            config.maxCTAs = crossed.most_blocks;
            ncclComm_t comm = nullptr;
            if (ncclCommInitRankConfig(&comm, ranks, id, rank, &config) != ncclSuccess) return told();
            std::string wrong = run_crossed(crossed, rank, comm, is_first_waiting);
            if (ncclCommDestroy(comm) != ncclSuccess) wrong += told();
            return wrong;
          })) == "");
  }
  fake_cuda_set_devices(1);
}

TEST_CASE("more ranks than a device has room for are refused at init, unless streams order their calls") {
  const Multiprocessors few(2);
  const auto begun = [](int ranks) {
    return run_bare_world(Mode::threads, ranks, [ranks](int rank, const ncclUniqueId& id) -> std::string {
      const OnDevice device;
      ncclComm_t comm = nullptr;
      if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) return told();
      std::vector<float> data(10, 1);
      const std::string wrong = reduce(comm, device.stream(), data, data.size());
      return ncclCommDestroy(comm) == ncclSuccess ? wrong : wrong + told();
    });
  };
  CHECK(failures(begun(4)) == "");
  for (const std::string& told : begun(5)) {
    CHECK(contains(told, "5 ranks share the device of rank 0, and kernels of 4 at most run at a time"));
    CHECK(contains(told, "SCCL_DEVICE_PATH=streams"));
  }
  ::setenv("SCCL_DEVICE_PATH", "streams", 1);
  CHECK(failures(begun(5)) == "");
  ::unsetenv("SCCL_DEVICE_PATH");
}

// Ranks 0 and 2 of a communicator share device 0, rank 1 is on device 1. Ranks 0 and 1 have a second communicator,
// whose blocks are wide. Device 0 begins with the first one's call, and device 1 with the second one's.
TEST_CASE("a wide block finds a multiprocessor beside ranks that share the device and wait") {
  const Multiprocessors few(8);
  constexpr int kOfFirst = 2 * 3;  // blocks on device 0: six of eight multiprocessors are in use, if only by half
  std::atomic<bool> is_first_waiting{false};
  CHECK(failures(run_device_world(
            Mode::threads, 3,
            [&](int rank, ncclComm_t first, const OnDevice& device) -> std::string {
              ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
              config.maxCTAs = 2;
              ncclComm_t second = nullptr;
              const int color = rank == 2 ? NCCL_SPLIT_NOCOLOR : 0;
              if (ncclCommSplit(first, color, rank, &second, &config) != ncclSuccess) return told();
              void* beside = nullptr;
              cuStreamCreate(&beside, 1);
              const auto second_stream = static_cast<cudaStream_t>(beside);
              std::vector<float> of_first(kMany, 1), of_second(kMany, 1);
              std::string wrong;
              if (rank != 1) wrong = reduce(first, device.stream(), of_first, kMany);
              while (rank == 0 && fake_cuda_blocks(0) < kOfFirst) settle();
              if (rank == 0) is_first_waiting = true;
              await(is_first_waiting);
              if (second != nullptr) wrong += reduce(second, second_stream, of_second, kMany);
              if (rank == 1) wrong += reduce(first, second_stream, of_first, kMany);
              cuStreamSynchronize(beside);
              device.synchronize();
              if (of_first[kMany - 1] != 3) wrong += "the first sum is wrong";
              if (second != nullptr && of_second[kMany - 1] != 2) wrong += "the second sum is wrong";
              cuStreamDestroy_v2(beside);
              if (second != nullptr) ncclCommDestroy(second);
              return wrong;
            },
            2)) == "");
  fake_cuda_set_devices(1);
}
