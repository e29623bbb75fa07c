// Many communicators, little memory, quick init.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "harness.h"
#include "world.h"

using namespace api_test;
using faults_test::census;
using faults_test::settled_census;

namespace {

std::string sum_is_right(int ranks, std::size_t count, ncclComm_t comm) {
  std::vector<float> data(count, 1.0f);
  if (ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess)
    return ncclGetLastError(nullptr);
  const bool right =
      std::all_of(data.begin(), data.end(), [&](float value) { return value == static_cast<float>(ranks); });
  return right ? "" : "wrong sum";
}

// Bytes in memory of this process's mappings of this name.
std::size_t resident_bytes(const char* mapping) {
  std::ifstream maps("/proc/self/smaps");
  std::size_t total = 0;
  bool counts = false;
  for (std::string line; std::getline(maps, line);) {
    std::size_t kilobytes = 0;
    if (line.find('-') < line.find(' ')) counts = line.find(mapping) != std::string::npos;
    if (counts && std::sscanf(line.c_str(), "Rss: %zu kB", &kilobytes) == 1) total += kilobytes * 1024;
  }
  return total;
}

std::size_t anonymous_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);)
    if (std::size_t kilobytes = 0; std::sscanf(line.c_str(), "Anonymous: %zu kB", &kilobytes) == 1)
      return kilobytes * 1024;
  return 0;
}

// What all calls of any protocol and size touch.
std::string exercise(int ranks, ncclComm_t comm) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{300}, std::size_t{20000}, std::size_t{1000000}})
    for (int repeat = 0; repeat < 8; ++repeat)
      if (const std::string wrong = sum_is_right(ranks, count, comm); !wrong.empty()) return wrong;
  return "";
}

// What init tells at INFO about its memory.
std::string memory_line(int ranks, const ncclUniqueId& id, int rank) {
  const std::string log = "/tmp/sccl-scale-test." + std::to_string(::getpid());
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_FILE", log.c_str(), 1);
  ncclResetDebugInit();
  ncclComm_t comm = nullptr;
  const bool made = ncclCommInitRank(&comm, ranks, id, rank) == ncclSuccess;
  std::string wrong = made ? sum_is_right(ranks, 100000, comm) : ncclGetLastError(nullptr);
  ncclCommDestroy(comm);
  std::ifstream file(log);
  std::stringstream text;
  text << file.rdbuf();
  ::unlink(log.c_str());
  return wrong.empty() ? text.str() : "wrong: " + wrong;
}

// "... 8392704 bytes of shared memory (SCCL_MEM_LIMIT ..."
std::size_t told_bytes(const std::string& text) {
  const std::size_t end = text.find(" bytes of memory");
  if (end == std::string::npos) return 0;
  const std::size_t begin = text.rfind(' ', end - 1);
  return std::strtoull(text.c_str() + begin, nullptr, 10);
}

}  // namespace

TEST_CASE("8 processes make communicators again and again", "[processes]") {
  const auto results = run_bare_world(Mode::processes, 8, [](int rank, const ncclUniqueId& id) -> std::string {
    ncclComm_t first = nullptr;
    if (ncclCommInitRank(&first, 8, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    for (int repeat = 0; repeat < 9; ++repeat) {
      ncclUniqueId next{};
      if (rank == 0) ncclGetUniqueId(&next);
      if (ncclBroadcast(&next, &next, sizeof next, ncclUint8, 0, first, nullptr) != ncclSuccess) return "broadcast";
      ncclComm_t comm = nullptr;
      if (ncclCommInitRank(&comm, 8, next, rank) != ncclSuccess) return ncclGetLastError(nullptr);
      ncclCommDestroy(comm);
    }
    ncclCommDestroy(first);
    return "";
  });
  CHECK(failures(results) == "");
}

TEST_CASE("the process that made the id may end as soon as its own init returns", "[processes]") {
  for (int repeat = 0; repeat < 30; ++repeat) {
    const auto results = run_bare_world(Mode::processes, 6, [](int rank, const ncclUniqueId& id) -> std::string {
      ncclComm_t first = nullptr;
      if (ncclCommInitRank(&first, 6, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
      ncclUniqueId next{};
      if (rank == 0) ncclGetUniqueId(&next);
      if (ncclBroadcast(&next, &next, sizeof next, ncclUint8, 0, first, nullptr) != ncclSuccess) return "broadcast";
      ncclComm_t comm = nullptr;
      if (ncclCommInitRank(&comm, 6, next, rank) != ncclSuccess) return ncclGetLastError(nullptr);
      return "";
    });
    CHECK(failures(results) == "");
  }
}

TEST_CASE("4 processes hold 100 communicators at once", "[processes]") {
  const auto results = run_bare_world(Mode::processes, 4, [](int rank, const ncclUniqueId& id) -> std::string {
    const auto before = census();
    ncclComm_t first = nullptr;
    if (ncclCommInitRank(&first, 4, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::vector<ncclUniqueId> ids(99);
    if (rank == 0)
      for (ncclUniqueId& next : ids) ncclGetUniqueId(&next);
    if (ncclBroadcast(ids.data(), ids.data(), ids.size() * sizeof ids[0], ncclUint8, 0, first, nullptr) != ncclSuccess)
      return "broadcast";
    std::vector<ncclComm_t> comms{first};
    for (const ncclUniqueId& next : ids) {
      comms.push_back(nullptr);
      if (ncclCommInitRank(&comms.back(), 4, next, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    }
    std::string wrong;
    for (const ncclComm_t comm : comms)
      for (const std::size_t count : {std::size_t{3}, std::size_t{5000}})
        if (wrong.empty()) wrong = sum_is_right(4, count, comm);
    for (const ncclComm_t comm : comms) ncclCommDestroy(comm);
    return wrong + settled_census(before).difference(before);
  });
  CHECK(failures(results) == "");
}

TEST_CASE("a communicator takes less than 32 MB at a rank", "[processes]") {
#if defined(__SANITIZE_ADDRESS__)
  const std::size_t most = 96000000;  // its allocator keeps what was freed
#else
  const std::size_t most = 32000000;
#endif
  for (const int ranks : {2, 8, 48}) {
    INFO(ranks << " ranks");
    const auto results = run_world(Mode::processes, ranks, [ranks, most](int, ncclComm_t comm) -> std::string {
      const std::size_t before = anonymous_bytes();
      const std::string wrong = exercise(ranks, comm);
      const std::size_t own = anonymous_bytes() - std::min(before, anonymous_bytes());
      // Every rank's shared memory is mapped here; a rank's own is one of them, and they are alike.
      const std::size_t shared = resident_bytes("memfd:sccl") / static_cast<std::size_t>(ranks);
      if (shared + own < most) return wrong;
      return wrong + std::to_string(shared) + " bytes of shared memory and " + std::to_string(own) + " of its own";
    });
    CHECK(failures(results) == "");
  }
}

TEST_CASE("init tells its memory, and SCCL_MEM_LIMIT bounds it", "[processes]") {
  const auto results = run_bare_world(Mode::processes, 8, [](int rank, const ncclUniqueId& id) -> std::string {
    if (rank == 3) ::setenv("SCCL_MEM_LIMIT", "8000000", 1);  // the smallest limit of all ranks counts
    const std::string told = memory_line(8, id, rank);
    const std::size_t bytes = told_bytes(told);
    return bytes > 0 && bytes <= 8000000 ? "" : told;
  });
  CHECK(failures(results) == "");
}

TEST_CASE("a limit that leaves no room for slots is refused by all ranks with its name", "[processes]") {
  const auto results = run_bare_world(Mode::processes, 4, [](int rank, const ncclUniqueId& id) -> std::string {
    if (rank == 2) ::setenv("SCCL_MEM_LIMIT", "100000", 1);
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 4, id, rank) == ncclSuccess) return "init succeeded";
    const std::string text = ncclGetLastError(nullptr);
    return text.find("SCCL_MEM_LIMIT=100000") != std::string::npos ? "" : text;
  });
  CHECK(failures(results) == "");
}
