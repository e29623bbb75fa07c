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

#include "stopper.h"
#include "world.h"

using namespace api_test;
using namespace faults_test;

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
  std::atomic<bool> stopped{false};
  std::atomic<bool> continued{false};
  std::atomic<bool> victim_failed{false};  // its call has returned
  std::atomic<int> begun{0};               // calls of another communicator
  std::atomic<bool> over{false};
};

class SharedBoard {
 public:
  SharedBoard()
      : board_(new (::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Board) {}
  ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board* operator->() const { return board_; }
  Board& operator*() const { return *board_; }

 private:
  Board* board_;
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

// What ends the others' calls.
enum class Ending { deadline, abort, revoke };

struct Strike {
  unsigned seed;
  int victim;
  Stop stop = Stop::signal;
  Ending ending = Ending::deadline;
};

// What changed in buffers that are the caller's again, once the victim has gone on.
std::string changes(Board& board, Buffer& send, Buffer& recv) {
  recv.mark();
  send.mark();
  board.failed.fetch_add(1);
  if (!wait_until([&] { return board.continued && board.victim_failed; })) return "nobody continued";
  std::string wrong;
  for (Buffer* buffer : {&send, &recv}) {
    if (const std::size_t changed = buffer->changed(); changed > 0)
      wrong += "a stopped peer wrote " + std::to_string(changed) + " bytes. ";
    if (!buffer->keeps_neighbours()) wrong += "what the program wrote beside the buffer was lost. ";
  }
  return wrong;
}

std::string survive(const Case& tried, const Strike& how, Board& board, int rank, ncclComm_t comm) {
  Buffer send(tried.memory);
  Buffer recv(tried.memory);
  std::thread ender;
  if (how.ending != Ending::deadline)
    ender = std::thread([&] {
      wait_until([&] { return board.stopped.load(); });
      std::this_thread::sleep_for(20ms);
      how.ending == Ending::abort ? ncclCommAbort(comm) : ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
    });
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) result = tried.call(send.data(), recv.data(), rank, tried.ranks, comm);
  const std::string error = ncclGetLastError(nullptr);
  if (ender.joinable()) ender.join();
  if (how.ending == Ending::deadline && result != ncclRemoteError)
    return "got " + std::string(ncclGetErrorString(result)) + ": " + error;
  const std::string wrong = changes(board, send, recv);
  if (how.ending != Ending::abort) ncclCommAbort(comm);
  return wrong;
}

std::string victim_life(const Case& tried, Board& board, int rank, ncclComm_t comm) {
  Buffer send(tried.memory);
  Buffer recv(tried.memory);
  for (; tried.call(send.data(), recv.data(), rank, tried.ranks, comm) == ncclSuccess; ++board.rounds) {
  }
  board.victim_failed = true;
  ncclCommAbort(comm);
  return "";
}

// Stops the victim a while after all have begun, and lets it go on when all others' calls have failed.
void strike(const Strike& how, int others, Board& board) {
  std::mt19937 random(how.seed);
  wait_until([&] { return board.rounds >= 3 || board.failed > 0; });
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
  const auto stopped = stop(how.stop, board.processes[how.victim]);
  board.stopped = true;
  wait_until([&] { return board.failed.load() == others; });
}

std::string attempt(const Case& tried, const Strike& how) {
  const SharedBoard board;
  const auto results = run_bare_world(Mode::processes, tried.ranks, [&](int rank, const ncclUniqueId& id) {
    ::setenv("SCCL_TIMEOUT_MS", how.ending == Ending::deadline || rank == how.victim ? "200" : "0", 1);
    if (*tried.protocol != '\0') ::setenv("SCCL_PROTO", tried.protocol, 1);
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, tried.ranks, id, rank) != ncclSuccess) return std::string(ncclGetLastError(nullptr));
    board->processes[rank] = ::getpid();
    const int striker = how.victim == 0 ? 1 : 0;
    if (!wait_until([&] {
          return std::all_of(board->processes, board->processes + tried.ranks,
                             [](const auto& process) { return process != 0; });
        }))
      return std::string("somebody did not come");
    if (rank == how.victim) return victim_life(tried, *board, rank, comm);
    std::thread helper;
    if (rank == striker)
      helper = std::thread([&] {
        strike(how, tried.ranks - 1, *board);
        board->continued = true;
      });
    std::string wrong = survive(tried, how, *board, rank, comm);
    if (helper.joinable()) helper.join();
    return wrong;
  });
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

int tries() {
  const char* const repeats = std::getenv("SCCL_TEST_REPEATS");
  return repeats == nullptr ? 2 : std::atoi(repeats);
}

void try_all(const std::vector<Case>& cases, Stop stop, Ending ending) {
  for (const Case& tried : cases)
    for (int i = 0; i < tries(); ++i) {
      const unsigned seed = std::random_device{}();
      INFO(tried.name << " of " << tried.ranks << " ranks, stopped by " << name(stop) << ", seed " << seed);
      CHECK(attempt(tried, {seed, tried.ranks - 1, stop, ending}) == "");
    }
}

// Of each way that data takes one.
std::vector<Case> few_cases() {
  return {{"AllReduce", 3, Memory::exported, "", all_reduce},
          {"AllReduce of plain memory through the system", 2, Memory::plain, "direct", all_reduce},
          {"Send and Recv of plain memory", 2, Memory::plain, "", send_recv}};
}

void try_other_stop(Stop how) {
  if (!can_stop(how)) return sccl_test::skip(std::string("no process may be stopped by ") + name(how) + " here");
  try_all(few_cases(), how, Ending::deadline);
}

// Rank 0 uses the same buffers with rank 1, which is stopped, and with rank 2.
std::string two_communicators(unsigned seed) {
  const SharedBoard board;
  const auto results = run_bare_world(Mode::processes, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    // Between two calls with rank 1, rank 0 calls with rank 2: on busy cores that takes longer than 200 ms.
    ::setenv("SCCL_TIMEOUT_MS", "1500", 1);
    ncclComm_t all = nullptr, stopped = nullptr, other = nullptr;
    if (ncclCommInitRank(&all, 3, id, rank) != ncclSuccess ||
        ncclCommSplit(all, rank == 2 ? NCCL_SPLIT_NOCOLOR : 1, rank, &stopped, nullptr) != ncclSuccess ||
        ncclCommSplit(all, rank == 1 ? NCCL_SPLIT_NOCOLOR : 1, rank, &other, nullptr) != ncclSuccess)
      return ncclGetLastError(nullptr);
    board->processes[rank] = ::getpid();
    wait_until([&] { return board->processes[0] != 0 && board->processes[1] != 0 && board->processes[2] != 0; });
    const Case tried{"AllReduce", 2, Memory::exported, "", all_reduce};
    if (rank == 1) return victim_life(tried, *board, 1, stopped);
    Buffer send(Memory::exported);
    Buffer recv(Memory::exported);
    std::fill(send.data(), send.data() + kElements, 1.0f);
    const auto sum_of_two = [&]() -> std::string {
      if (all_reduce(send.data(), recv.data(), 0, 2, other) != ncclSuccess) return ncclGetLastError(nullptr);
      const auto wrong = std::count_if(recv.data(), recv.data() + kElements, [](float value) { return value != 2; });
      return wrong == 0 ? "" : std::to_string(wrong) + " wrong sums";
    };
    std::string wrong;
    if (rank == 2) {
      for (int done = 0; wrong.empty(); ++done) {
        wait_until([&] { return board->begun > done || board->over; });
        if (board->begun <= done) break;
        wrong = sum_of_two();
      }
      ncclCommAbort(other);
      return wrong;
    }
    const auto with_other = [&] {
      ++board->begun;
      return sum_of_two();
    };
    std::thread helper([&] {
      strike({seed, 1}, 1, *board);
      board->continued = true;
    });
    while (wrong.empty() && all_reduce(send.data(), recv.data(), 0, 2, stopped) == ncclSuccess) wrong = with_other();
    if (wrong.empty()) wrong = with_other();
    ++board->failed;
    if (!wait_until([&] { return board->continued && board->victim_failed; })) wrong += "nobody continued";
    if (wrong.empty() && std::any_of(recv.data(), recv.data() + kElements, [](float value) { return value != 2; }))
      wrong = "the stopped peer changed the other communicator's result";
    for (int repeat = 0; repeat < 3 && wrong.empty(); ++repeat) wrong = with_other();
    board->over = true;
    helper.join();
    ncclCommAbort(stopped);
    ncclCommAbort(other);
    return wrong;
  });
  return failures(results);
}

}  // namespace

TEST_CASE("a peer that was stopped in a call writes nothing after the others' calls have failed", "[processes]") {
  try_all(cases(), Stop::signal, Ending::deadline);
}

TEST_CASE("nor does a peer that a debugger stopped", "[processes]") { try_other_stop(Stop::debugger); }

TEST_CASE("nor does a peer that was frozen", "[processes]") { try_other_stop(Stop::freezer); }

TEST_CASE("a stopped peer neither hinders an abort nor writes after it", "[processes]") {
  try_all(few_cases(), Stop::signal, Ending::abort);
}

TEST_CASE("a stopped peer neither hinders a revocation nor writes after it", "[processes]") {
  try_all(few_cases(), Stop::signal, Ending::revoke);
}

TEST_CASE("buffers that a stopped peer had go on in another communicator", "[processes]") {
  for (int i = 0; i < 2 * tries(); ++i) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    CHECK(two_communicators(seed) == "");
  }
}
