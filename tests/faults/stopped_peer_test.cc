// A peer that is stopped in the middle of a call (SIGSTOP, a debugger, a freezer) and goes on after the others' calls
// have failed: their buffers are the callers' own by then, and not one byte of them may change.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "world.h"

using namespace api_test;

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kElements = 4 * 1024 * 1024;
constexpr std::size_t kBytes = kElements * sizeof(float);
constexpr std::size_t kMargin = 1000;  // bytes around the buffer, on the same pages
constexpr auto kPatience = 60s;
constexpr unsigned char kMark = 0xa5;

// All ranks share it.
struct Board {
  std::atomic<int> processes[8] = {};
  std::atomic<int> rounds{0};  // that the victim has completed
  std::atomic<int> failed{0};
  std::atomic<bool> continued{false};
};

bool wait_until(const std::function<bool()>& done) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(200us);
  }
  return true;
}

enum class Memory { exported, plain };

// Room for `kBytes`, and beside them, on the same pages, bytes that this rank's program writes all the time.
class Buffer {
 public:
  explicit Buffer(Memory kind) : kind_(kind) {
    const std::size_t bytes = kBytes + 2 * kMargin;
    void* memory = nullptr;
    if (kind_ == Memory::exported)
      ncclMemAlloc(&memory, bytes);
    else
      memory = std::malloc(bytes);
    base_ = static_cast<unsigned char*>(memory);
    std::memset(base_, 1, bytes);
    writer_ = std::thread([this] {
      std::uint64_t count = 0;
      for (; !ends_.load(std::memory_order_relaxed); ++count)
        for (unsigned char* place : neighbours()) {
          if (!lost_ && read(place) != count) lost_ = true;
          const std::uint64_t next = count + 1;
          std::memcpy(place, &next, sizeof next);
          std::this_thread::sleep_for(20us);
        }
    });
  }
  ~Buffer() {
    keeps_neighbours();
    kind_ == Memory::exported ? static_cast<void>(ncclMemFree(base_)) : std::free(base_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Misaligned on purpose.
  float* data() { return reinterpret_cast<float*>(base_ + kMargin); }
  void mark() { std::memset(data(), kMark, kBytes); }
  std::size_t changed() {
    const unsigned char* const bytes = base_ + kMargin;
    return kBytes - static_cast<std::size_t>(std::count(bytes, bytes + kBytes, kMark));
  }
  // Whether all that the program wrote beside the buffer stayed.
  bool keeps_neighbours() {
    if (writer_.joinable()) {
      ends_ = true;
      writer_.join();
    }
    return !lost_;
  }

 private:
  std::array<unsigned char*, 2> neighbours() { return {base_ + kMargin - 16, base_ + kMargin + kBytes + 8}; }
  static std::uint64_t read(const unsigned char* place) {
    std::uint64_t value = 0;
    std::memcpy(&value, place, sizeof value);
    return first(value) ? 0 : value;
  }
  static bool first(std::uint64_t value) { return value == 0x0101010101010101u; }

  Memory kind_;
  unsigned char* base_ = nullptr;
  std::atomic<bool> ends_{false};
  bool lost_ = false;
  std::thread writer_;
};

// `recv` is written by peers; the count is chosen so that it is filled.
using Call = std::function<ncclResult_t(float* send, float* recv, int rank, int ranks, ncclComm_t comm)>;

struct Case {
  const char* name;
  int ranks;
  Memory memory;
  const char* protocol;
  Call call;
};

struct Strike {
  unsigned seed;
  int victim;
};

std::string survive(const Case& tried, Board& board, int rank, ncclComm_t comm) {
  Buffer send(tried.memory);
  Buffer recv(tried.memory);
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) result = tried.call(send.data(), recv.data(), rank, tried.ranks, comm);
  const std::string error = ncclGetLastError(nullptr);
  if (result != ncclRemoteError) return "got " + std::string(ncclGetErrorString(result)) + ": " + error;
  recv.mark();
  send.mark();
  board.failed.fetch_add(1);
  if (!wait_until([&] { return board.continued.load(); })) return "nobody continued";
  std::this_thread::sleep_for(200ms);
  std::string wrong;
  for (Buffer* buffer : {&send, &recv}) {
    if (const std::size_t changed = buffer->changed(); changed > 0)
      wrong += "a stopped peer wrote " + std::to_string(changed) + " bytes. ";
    if (!buffer->keeps_neighbours()) wrong += "what the program wrote beside the buffer was lost. ";
  }
  ncclCommAbort(comm);
  return wrong;
}

std::string victim_life(const Case& tried, Board& board, int rank, ncclComm_t comm) {
  Buffer send(tried.memory);
  Buffer recv(tried.memory);
  for (; tried.call(send.data(), recv.data(), rank, tried.ranks, comm) == ncclSuccess; ++board.rounds) {
  }
  ncclCommAbort(comm);
  return "";
}

// Stops the victim a while after all have begun, and lets it go on when all others' calls have failed.
void strike(const Case& tried, const Strike& how, Board& board) {
  std::mt19937 random(how.seed);
  const pid_t victim = board.processes[how.victim];
  wait_until([&] { return board.rounds >= 3; });
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
  ::kill(victim, SIGSTOP);
  wait_until([&] { return board.failed.load() == tried.ranks - 1; });
  ::kill(victim, SIGCONT);
  board.continued = true;
}

std::string attempt(const Case& tried, const Strike& how) {
  void* const memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Board& board = *new (memory) Board;
  const auto results = run_bare_world(Mode::processes, tried.ranks, [&](int rank, const ncclUniqueId& id) {
    ::setenv("SCCL_TIMEOUT_MS", "200", 1);
    if (*tried.protocol != '\0') ::setenv("SCCL_PROTO", tried.protocol, 1);
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, tried.ranks, id, rank) != ncclSuccess) return std::string(ncclGetLastError(nullptr));
    board.processes[rank] = ::getpid();
    const int striker = how.victim == 0 ? 1 : 0;
    if (!wait_until([&] {
          return std::all_of(board.processes, board.processes + tried.ranks,
                             [](const auto& process) { return process != 0; });
        }))
      return std::string("somebody did not come");
    if (rank == how.victim) return victim_life(tried, board, rank, comm);
    std::thread helper;
    if (rank == striker) helper = std::thread([&] { strike(tried, how, board); });
    std::string wrong = survive(tried, board, rank, comm);
    if (helper.joinable()) helper.join();
    return wrong;
  });
  ::munmap(memory, sizeof(Board));
  return failures(results);
}

ncclResult_t all_reduce(float* send, float* recv, int, int, ncclComm_t comm) {
  return ncclAllReduce(send, recv, kElements, ncclFloat, ncclSum, comm, nullptr);
}
ncclResult_t all_reduce_in_place(float*, float* recv, int, int, ncclComm_t comm) {
  return ncclAllReduce(recv, recv, kElements, ncclFloat, ncclSum, comm, nullptr);
}
ncclResult_t all_gather(float* send, float* recv, int, int ranks, ncclComm_t comm) {
  return ncclAllGather(send, recv, kElements / static_cast<std::size_t>(ranks), ncclFloat, comm, nullptr);
}
ncclResult_t reduce_scatter(float* send, float* recv, int, int ranks, ncclComm_t comm) {
  return ncclReduceScatter(send, recv, kElements / static_cast<std::size_t>(ranks), ncclFloat, ncclSum, comm, nullptr);
}
ncclResult_t broadcast(float*, float* recv, int, int ranks, ncclComm_t comm) {
  return ncclBroadcast(recv, recv, kElements, ncclFloat, ranks - 1, comm, nullptr);
}
ncclResult_t send_recv(float* send, float* recv, int rank, int ranks, ncclComm_t comm) {
  ncclGroupStart();
  ncclSend(send, kElements, ncclFloat, (rank + 1) % ranks, comm, nullptr);
  ncclRecv(recv, kElements, ncclFloat, (rank + ranks - 1) % ranks, comm, nullptr);
  return ncclGroupEnd();
}

std::vector<Case> cases() {
  return {{"AllReduce", 2, Memory::exported, "", all_reduce},
          {"AllReduce in place", 2, Memory::exported, "", all_reduce_in_place},
          {"AllReduce", 3, Memory::exported, "", all_reduce},
          {"AllGather", 2, Memory::exported, "", all_gather},
          {"AllGather", 3, Memory::exported, "", all_gather},
          {"ReduceScatter", 2, Memory::exported, "", reduce_scatter},
          {"Broadcast", 3, Memory::exported, "", broadcast},
          {"Send and Recv", 2, Memory::exported, "", send_recv},
          {"AllReduce of plain memory", 2, Memory::plain, "", all_reduce},
          {"AllReduce of plain memory through the system", 2, Memory::plain, "direct", all_reduce},
          {"AllGather of plain memory through the system", 3, Memory::plain, "direct", all_gather},
          {"Send and Recv of plain memory", 2, Memory::plain, "", send_recv}};
}

}  // namespace

TEST_CASE("a peer that was stopped in a call writes nothing after the others' calls have failed", "[processes]") {
  const char* const repeats = std::getenv("SCCL_TEST_REPEATS");
  const int tries = repeats == nullptr ? 2 : std::atoi(repeats);
  for (const Case& tried : cases())
    for (int i = 0; i < tries; ++i) {
      const unsigned seed = std::random_device{}();
      INFO(tried.name << " of " << tried.ranks << " ranks, seed " << seed);
      CHECK(attempt(tried, {seed, tried.ranks - 1}) == "");
    }
}
