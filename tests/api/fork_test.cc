// A child that was forked after communicators and buffers were made: they are its parent's. Whatever it calls on them
// changes nothing there, and it can make its own.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "world.h"

using namespace api_test;

namespace {

constexpr std::size_t kCount = 64 * 1024;

// Runs `body` in a forked child; "" when it returned true.
std::string in_fork(const char* what, const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status == 0 ? "" : std::string(what) + " in a child: status " + std::to_string(status) + ". ";
}

bool tells_of_fork(ncclResult_t result) {
  return result == ncclInvalidUsage && std::strstr(ncclGetLastError(nullptr), "fork") != nullptr;
}

std::string sum(ncclComm_t comm, int ranks, float* data) {
  std::fill(data, data + kCount, 1.0f);
  if (ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, nullptr) != ncclSuccess)
    return ncclGetLastError(nullptr);
  return std::all_of(data, data + kCount, [&](float value) { return value == static_cast<float>(ranks); })
             ? ""
             : "wrong sum. ";
}

struct Memory {
  explicit Memory(std::size_t bytes) { ncclMemAlloc(&data, bytes); }
  ~Memory() { ncclMemFree(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  float* floats() const { return static_cast<float*>(data); }
  void* data = nullptr;
};

// Around each child the parent's communicator works.
std::string with_children(int rank, int ranks, ncclComm_t comm) {
  const Memory memory(kCount * sizeof(float));
  float* const data = memory.floats();
  std::string wrong = sum(comm, ranks, data);
  const auto child = [&](const char* what, const std::function<bool()>& body) {
    if (rank == 0) wrong += in_fork(what, body);
    wrong += sum(comm, ranks, data);
  };
  int number = 0;
  ncclComm_t made = nullptr;
  ncclResult_t state = ncclSuccess;
  ncclUniqueId id;
  child("a collective",
        [&] { return tells_of_fork(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, nullptr)); });
  child("Send", [&] { return tells_of_fork(ncclSend(data, kCount, ncclFloat, 1, comm, nullptr)); });
  child("Destroy",
        [&] { return ncclCommDestroy(comm) == ncclSuccess && ncclCommDestroy(comm) == ncclInvalidArgument; });
  child("Abort", [&] { return ncclCommAbort(comm) == ncclSuccess; });
  child("Finalize", [&] { return tells_of_fork(ncclCommFinalize(comm)); });
  child("Revoke", [&] { return tells_of_fork(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT)); });
  child("Split", [&] { return tells_of_fork(ncclCommSplit(comm, 0, 0, &made, nullptr)); });
  child("Suspend", [&] { return tells_of_fork(ncclCommSuspend(comm, NCCL_SUSPEND_MEM)); });
  child("a question", [&] { return tells_of_fork(ncclCommCount(comm, &number)); });
  child("GetAsyncError", [&] { return tells_of_fork(ncclCommGetAsyncError(comm, &state)); });
  child("GetUniqueId of a communicator", [&] { return tells_of_fork(ncclCommGetUniqueId(comm, &id)); });
  child("exit", [&] { return ncclCommDestroy(comm) == ncclSuccess; });
  return wrong;
}

std::string with_memory(int rank, int ranks, ncclComm_t comm) {
  const Memory large(kCount * sizeof(float));
  const Memory small(1000);
  float* const data = large.floats();
  std::string wrong = sum(comm, ranks, data);
  if (rank == 0)
    wrong += in_fork("free",
                     [&] { return ncclMemFree(large.data) == ncclSuccess && ncclMemFree(small.data) == ncclSuccess; });
  if (data[0] != static_cast<float>(ranks) || data[kCount - 1] != static_cast<float>(ranks))
    wrong += "a child's free took the buffer away. ";
  // As of any other memory, what the child writes is its own, and what it reads is what the parent wrote.
  if (rank == 0)
    wrong += in_fork("use", [&] {
      if (data[0] != static_cast<float>(ranks)) return false;
      std::fill(data, data + kCount, -1.0f);
      const Memory fresh(kCount * sizeof(float));
      return data[5] == -1.0f && fresh.data != nullptr;
    });
  if (data[0] != static_cast<float>(ranks) || data[kCount - 1] != static_cast<float>(ranks))
    wrong += "a child wrote into the parent's buffer. ";
  return wrong + sum(comm, ranks, data);
}

std::string group_over_fork(int rank, int ranks, ncclComm_t comm) {
  const Memory memory(kCount * sizeof(float));
  float* const data = memory.floats();
  std::fill(data, data + kCount, 1.0f);
  std::string wrong;
  ncclGroupStart();
  ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, nullptr);
  if (rank == 0) wrong += in_fork("the end of a group", [] { return tells_of_fork(ncclGroupEnd()); });
  if (ncclGroupEnd() != ncclSuccess) return ncclGetLastError(nullptr);
  return wrong + (data[7] == static_cast<float>(ranks) ? "" : "wrong sum. ");
}

std::string own_communicator(int rank, int ranks, ncclComm_t comm) {
  const Memory memory(kCount * sizeof(float));
  std::fill(memory.floats(), memory.floats() + kCount, 3.0f);
  std::string wrong;
  if (rank == 0)
    wrong += in_fork("a communicator", [&] {
      ncclUniqueId id;
      ncclComm_t mine = nullptr;
      return ncclGetUniqueId(&id) == ncclSuccess && ncclCommInitRank(&mine, 1, id, 0) == ncclSuccess &&
             sum(mine, 1, memory.floats()).empty() && ncclCommDestroy(mine) == ncclSuccess;
    });
  if (memory.floats()[0] != 3.0f) wrong += "the child's call wrote into the parent's buffer. ";
  return wrong + sum(comm, ranks, memory.floats());
}

}  // namespace

TEST_CASE("nothing that a forked child calls ends or changes its parent's communicator", "[processes]") {
  CHECK(failures(run_world(Mode::processes, 2,
                           [](int rank, ncclComm_t comm) { return with_children(rank, 2, comm); })) == "");
}

TEST_CASE("memory of ncclMemAlloc stays the parent's whatever a forked child does to it", "[processes]") {
  CHECK(failures(run_world(Mode::processes, 2, [](int rank, ncclComm_t comm) { return with_memory(rank, 2, comm); })) ==
        "");
}

TEST_CASE("a group that was begun before a fork runs in the parent only", "[processes]") {
  CHECK(failures(run_world(Mode::processes, 2,
                           [](int rank, ncclComm_t comm) { return group_over_fork(rank, 2, comm); })) == "");
}

TEST_CASE("a forked child makes communicators of its own, with buffers it was forked with", "[processes]") {
  CHECK(failures(run_world(Mode::processes, 2,
                           [](int rank, ncclComm_t comm) { return own_communicator(rank, 2, comm); })) == "");
}
