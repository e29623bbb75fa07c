// Counts, pointers and numbers that no program means: each is told as an argument error, and the communicator goes on.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "world.h"

using namespace api_test;

namespace {

std::string told() { return ncclGetLastError(nullptr); }

// The last error's text is the process's: a rank that is a thread holds this from its call until it has read the text.
// Calls that are refused wait for nobody.
std::mutex text_is_mine;

// "" when it was refused as an argument, with `word` in the text.
std::string refused(const char* what, ncclResult_t result, const std::string& word) {
  if (result == ncclInvalidArgument && told().find(word) != std::string::npos) return "";
  return std::string(what) + " of " + word + " got " + ncclGetErrorString(result) + ": " + told() + ". ";
}

std::string still_works(ncclComm_t comm, int ranks) {
  std::vector<float> data(1000, 1.0f);
  if (ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum, comm, nullptr) != ncclSuccess)
    return told();
  return data.back() == static_cast<float>(ranks) ? "" : "wrong sum";
}

std::string all_with_count(ncclComm_t comm, std::size_t count, ncclDataType_t type) {
  const std::lock_guard lock(text_is_mine);
  static double data[64];
  const std::string word = "count " + std::to_string(count);
  std::string wrong;
  wrong += refused("AllReduce", ncclAllReduce(data, data, count, type, ncclSum, comm, nullptr), word);
  wrong += refused("Reduce", ncclReduce(data, data, count, type, ncclSum, 0, comm, nullptr), word);
  wrong += refused("Broadcast", ncclBroadcast(data, data, count, type, 0, comm, nullptr), word);
  wrong += refused("Bcast", ncclBcast(data, count, type, 0, comm, nullptr), word);
  wrong += refused("AllGather", ncclAllGather(data, data, count, type, comm, nullptr), word);
  wrong += refused("ReduceScatter", ncclReduceScatter(data, data, count, type, ncclSum, comm, nullptr), word);
  wrong += refused("AlltoAll", ncclAlltoAll(data, data, count, type, comm, nullptr), word);
  wrong += refused("Gather", ncclGather(data, data, count, type, 0, comm, nullptr), word);
  wrong += refused("Scatter", ncclScatter(data, data, count, type, 0, comm, nullptr), word);
  wrong += refused("Send", ncclSend(data, count, type, 0, comm, nullptr), word);
  wrong += refused("Recv", ncclRecv(data, count, type, 0, comm, nullptr), word);
  ncclGroupStart();
  ncclAllReduce(data, data, count, type, ncclSum, comm, nullptr);
  wrong += refused("a group", ncclGroupEnd(), word);
  return wrong;
}

std::string all_with_null(ncclComm_t comm, int rank) {
  float data[64] = {};
  void* const none = nullptr;
  std::string wrong;
  std::unique_lock lock(text_is_mine);
  const auto sends = [&](const char* what, ncclResult_t result) { wrong += refused(what, result, "sendbuff is NULL"); };
  const auto recvs = [&](const char* what, ncclResult_t result) { wrong += refused(what, result, "recvbuff is NULL"); };
  sends("AllReduce", ncclAllReduce(none, data, 8, ncclFloat, ncclSum, comm, nullptr));
  recvs("AllReduce", ncclAllReduce(data, none, 8, ncclFloat, ncclSum, comm, nullptr));
  sends("AllGather", ncclAllGather(none, data, 8, ncclFloat, comm, nullptr));
  recvs("ReduceScatter", ncclReduceScatter(data, none, 8, ncclFloat, ncclSum, comm, nullptr));
  recvs("AlltoAll", ncclAlltoAll(data, none, 8, ncclFloat, comm, nullptr));
  recvs("Recv", ncclRecv(none, 8, ncclFloat, 0, comm, nullptr));
  sends("Send", ncclSend(none, 8, ncclFloat, 0, comm, nullptr));
  recvs("Reduce to this rank", ncclReduce(data, none, 8, ncclFloat, ncclSum, rank, comm, nullptr));
  sends("Broadcast from this rank", ncclBroadcast(none, data, 8, ncclFloat, rank, comm, nullptr));
  lock.unlock();
  // Where a rank has no part in a buffer it passes NULL rightly.
  if (ncclReduce(data, rank == 0 ? data : none, 8, ncclFloat, ncclSum, 0, comm, nullptr) != ncclSuccess ||
      ncclScatter(rank == 0 ? data : none, data, 8, ncclFloat, 0, comm, nullptr) != ncclSuccess)
    wrong += told();
  lock.lock();
  ncclWindow_t window = nullptr;
  void* handle = nullptr;
  wrong += refused("a window", ncclCommWindowRegister(comm, none, 4096, &window, 0), "0x0");
  wrong += refused("a registration", ncclCommRegister(comm, none, 4096, &handle), "buff is NULL");
  return wrong;
}

}  // namespace

TEST_CASE("counts whose bytes no memory holds are refused by name") {
  for (const int ranks : {1, 2})
    CHECK(failures(run_world(Mode::threads, ranks, [&](int, ncclComm_t comm) {
            std::string wrong;
            for (const std::size_t count : {SIZE_MAX, std::size_t{1} << 60, std::size_t{1} << 61, std::size_t{1} << 62,
                                            SIZE_MAX / 8 + 2, static_cast<std::size_t>(-1000)})
              wrong += all_with_count(comm, count, ncclDouble);
            wrong += all_with_count(comm, SIZE_MAX, ncclInt8);
            return wrong + still_works(comm, ranks);
          })) == "");
}

TEST_CASE("NULL with a count is an argument error where the buffer is used, and none where it is not") {
  for (const Mode mode : modes())
    CHECK(failures(run_world(mode, 2, [](int rank, ncclComm_t comm) {
            return all_with_null(comm, rank) + still_works(comm, 2);
          })) == "");
}

TEST_CASE("a PutSignal of NULL is an argument error") {
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          std::vector<float> memory(1024);
          ncclWindow_t window = nullptr;
          if (ncclCommWindowRegister(comm, memory.data(), 4096, &window, 0) != ncclSuccess) return told();
          if (window == nullptr) return "";
          return refused("PutSignal", ncclPutSignal(nullptr, 8, ncclFloat, 1 - rank, window, 0, 0, 0, 0, comm, nullptr),
                         "localbuff is NULL") +
                 still_works(comm, 2);
        })) == "");
}

TEST_CASE("ncclMemFree takes back what ncclMemAlloc handed out, and nothing else") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{1} << 20}) {
    void* memory = nullptr;
    REQUIRE(ncclMemAlloc(&memory, bytes) == ncclSuccess);
    std::memset(memory, 1, bytes);
    std::vector<char> foreign(100);
    int local = 0;
    for (void* wrong : {static_cast<void*>(static_cast<char*>(memory) + 64), static_cast<void*>(foreign.data()),
                        static_cast<void*>(&local), reinterpret_cast<void*>(8)})
      CHECK(refused("ncclMemFree", ncclMemFree(wrong), "ncclMemAlloc") == "");
    CHECK(ncclMemFree(memory) == ncclSuccess);
    CHECK(refused("a second ncclMemFree", ncclMemFree(memory), "ncclMemAlloc") == "");
  }
  CHECK(ncclMemFree(nullptr) == ncclSuccess);
  void* memory = nullptr;
  CHECK(refused("ncclMemAlloc", ncclMemAlloc(&memory, SIZE_MAX), std::to_string(SIZE_MAX)) == "");
}

TEST_CASE("a communicator that this library did not make is refused without being read") {
  const long bytes = ::sysconf(_SC_PAGESIZE);
  void* const memory = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  CHECK(failures(run_world(Mode::threads, 1, [&](int, ncclComm_t comm) {
          std::vector<std::uint64_t> copy(32);
          std::memcpy(copy.data(), reinterpret_cast<const void*>(comm), copy.size() * sizeof copy[0] / 4);
          std::string wrong;
          for (void* const foreign :
               {memory, reinterpret_cast<void*>(8), reinterpret_cast<void*>(0xdead00000000beef),
                reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(comm) + 1), static_cast<void*>(copy.data())}) {
            auto* const handle = static_cast<ncclComm_t>(foreign);
            float value = 1;
            int count = 0;
            ncclResult_t state = ncclSuccess;
            for (const ncclResult_t result :
                 {ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, handle, nullptr), ncclCommCount(handle, &count),
                  ncclCommGetAsyncError(handle, &state), ncclCommDestroy(handle), ncclCommAbort(handle)})
              wrong += refused("a foreign communicator", result, "not one this library made");
          }
          return wrong + still_works(comm, 1);
        })) == "");
  ::munmap(memory, static_cast<std::size_t>(bytes));
}

TEST_CASE("numbers of ranks that no host can hold are refused at once") {
  for (const int ranks : {1 << 17, 1 << 20, 1 << 30, INT_MAX}) {
    ncclUniqueId id;
    REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    ncclComm_t comm = nullptr;
    CHECK(refused("init", ncclCommInitRank(&comm, ranks, id, 0), std::to_string(ranks)) == "");
    CHECK(comm == nullptr);
  }
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a rank that shrinks while another makes a call with it: both are told at once", "[processes]") {
  for (const int shrinks : {0, 1})
    CHECK(failures(run_world(Mode::processes, 3, [&](int rank, ncclComm_t comm) -> std::string {
            if (rank == 2) {
              std::this_thread::sleep_for(std::chrono::seconds(3));
              return "";
            }
            const auto begin = std::chrono::steady_clock::now();
            float value = 1;
            int excluded = 2;
            ncclComm_t child = nullptr;
            const ncclResult_t result = rank == shrinks
                                            ? ncclCommShrink(comm, &excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT)
                                            : ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr);
            const bool late = std::chrono::steady_clock::now() - begin > std::chrono::seconds(30);
            if (result == ncclInvalidUsage && told().find("shrinks it") != std::string::npos && !late) return "";
            return std::string(ncclGetErrorString(result)) + ": " + told();
          })) == "");
}
#endif
