// Memory of ncclMemAlloc: ranks that are processes use one another's buffers in place, and are none the worse off where
// somebody's cannot be mapped.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "collective_case.h"
#include "stage.h"
#include "world.h"

using namespace api_test;

namespace {

constexpr std::size_t kCount = 256 * 1024;
constexpr const char* kInPlace = "every rank's buffers are of ncclMemAlloc";

std::string told() { return ncclGetLastError(nullptr); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  ncclMemAlloc(&memory, std::max<std::size_t>(bytes, 128 * 1024));
  return memory;
}
void release(void* memory) { ncclMemFree(memory); }

struct Buffer {
  explicit Buffer(std::size_t count, bool mapped = true) : mapped_(mapped) {
    data = static_cast<float*>(mapped ? allocate(count * sizeof(float)) : std::malloc(count * sizeof(float)));
  }
  ~Buffer() { mapped_ ? release(data) : std::free(data); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  float* data;

 private:
  bool mapped_;
};

std::string all_reduce(int rank, int ranks, ncclComm_t comm, Buffer& in, Buffer& out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) in.data[i] = static_cast<float>(rank + 1) + static_cast<float>(i % 7);
  if (ncclAllReduce(in.data, out.data, count, ncclFloat, ncclSum, comm, nullptr) != ncclSuccess) return told();
  for (std::size_t i = 0; i < count; ++i)
    if (out.data[i] !=
        static_cast<float>(ranks * (ranks + 1) / 2) + static_cast<float>(ranks) * static_cast<float>(i % 7))
      return "element " + std::to_string(i) + " is " + std::to_string(out.data[i]);
  return "";
}

// What the ranks, processes with these variables, log; their failures go before it.
std::string log_of(int ranks, const std::vector<std::pair<const char*, const char*>>& variables,
                   const RankFunction& body) {
  char path[] = "/tmp/sccl-mapped-XXXXXX";
  ::close(::mkstemp(path));
  const auto results = run_bare_world(Mode::processes, ranks, [&](int rank, const ncclUniqueId& id) -> std::string {
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
    ::setenv("NCCL_DEBUG", "INFO", 1);
    ::setenv("NCCL_DEBUG_SUBSYS", "TUNING,COLL", 1);
    ::setenv("NCCL_DEBUG_FILE", path, 1);
    ncclResetDebugInit();
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) return told();
    std::string wrong = body(rank, comm);
    if (ncclCommDestroy(comm) != ncclSuccess) wrong += told();
    return wrong;
  });
  std::ifstream file(path);
  std::stringstream text;
  text << failures(results) << file.rdbuf();
  ::unlink(path);
  return failures(results).empty() ? text.str() : "FAILED: " + text.str();
}

}  // namespace

TEST_CASE("every collective is right in buffers that the ranks use in place", "[processes]") {
  for (const int ranks : {2, 3}) {
    const std::string log = log_of(ranks, {{"SCCL_PROTO", "direct"}}, [&](int rank, ncclComm_t comm) -> std::string {
      case_memory() = {allocate, release};
      std::size_t turn = 0;
      for (const KindInfo& kind : kinds())
        for (const std::size_t count : {1, 1000, 70000})
          for (const bool in_place : {false, true}) {
            if (in_place && !kind.has_in_place) continue;
            const std::size_t at = turn++;
            const Case test{&kind,  &types()[at % types().size()], kOps[at / 2 % 6], count, in_place,
                            at % 3, static_cast<int>(at) % ranks};
            if (std::string wrong = run_case(test, rank, ranks, comm); !wrong.empty()) return wrong;
          }
      return "";
    });
    CAPTURE(log);
    CHECK_FALSE(log.starts_with("FAILED"));
    for (const KindInfo& kind : kinds()) CHECK(contains(log, std::string(kind.name) + " of "));
    CHECK(contains(log, kInPlace));
  }
}

TEST_CASE("large calls use such buffers in place unasked, small ones do not", "[processes]") {
  const std::string log = log_of(2, {}, [](int rank, ncclComm_t comm) -> std::string {
    Buffer in(kCount), out(kCount);
    for (const std::size_t count : {std::size_t{16}, kCount, std::size_t{1000}, kCount})
      if (std::string wrong = all_reduce(rank, 2, comm, in, out, count); !wrong.empty()) return wrong;
    return "";
  });
  CAPTURE(log);
  CHECK_FALSE(log.starts_with("FAILED"));
  CHECK(contains(log, "AllReduce of 1048576 bytes: one-hop (single copy) serves; " + std::string(kInPlace)));
  CHECK(contains(log, "AllReduce of 64 bytes"));
  CHECK_FALSE(contains(log, "64 bytes: one-hop (single copy)"));
}

TEST_CASE("one rank's other memory sends all ranks through slots, until it passes such memory, too", "[processes]") {
  const std::string log = log_of(2, {}, [](int rank, ncclComm_t comm) -> std::string {
    Buffer in(kCount), out(kCount), other(kCount, false);
    for (int i = 0; i < 5; ++i)
      if (std::string wrong = all_reduce(rank, 2, comm, in, rank == 1 ? other : out, kCount); !wrong.empty())
        return wrong;
    return "";
  });
  CAPTURE(log);
  CHECK_FALSE(log.starts_with("FAILED"));
  CHECK_FALSE(contains(log, kInPlace));
  const std::string later = log_of(2, {}, [](int rank, ncclComm_t comm) -> std::string {
    Buffer in(kCount), out(kCount), other(kCount, false);
    for (int i = 0; i < 40; ++i)
      if (std::string wrong = all_reduce(rank, 2, comm, in, rank == 1 && i < 5 ? other : out, kCount); !wrong.empty())
        return wrong;
    return "";
  });
  CAPTURE(later);
  CHECK_FALSE(later.starts_with("FAILED"));
  CHECK(contains(later, kInPlace));
}

TEST_CASE("buffers that one rank cannot map for want of a descriptor are used in place by none", "[processes]") {
  const auto results = run_world(Mode::processes, 3, [](int rank, ncclComm_t comm) -> std::string {
    Buffer in(kCount), out(kCount);
    if (rank == 1) {
      const int first_free = ::dup(0);
      ::close(first_free);
      rlimit limit{};
      ::getrlimit(RLIMIT_NOFILE, &limit);
      limit.rlim_cur = static_cast<rlim_t>(first_free);
      ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    std::string wrong;
    for (int call = 0; call < 3 && wrong.empty(); ++call) wrong = all_reduce(rank, 3, comm, in, out, kCount);
    return wrong;
  });
  CHECK(failures(results) == "");
}

TEST_CASE("SCCL_DIRECT=0 and named links keep ranks out of one another's buffers", "[processes]") {
  for (const auto& setting :
       {std::pair{"SCCL_DIRECT", "0"}, std::pair{"SCCL_TOPO", "nvpairs4:0,1"}, std::pair{"SCCL_PROTO", "simple"}}) {
    const std::string log = log_of(2, {setting}, [](int rank, ncclComm_t comm) -> std::string {
      Buffer in(kCount), out(kCount);
      return all_reduce(rank, 2, comm, in, out, kCount);
    });
    CAPTURE(log);
    CHECK_FALSE(log.starts_with("FAILED"));
    CHECK_FALSE(contains(log, kInPlace));
  }
}

TEST_CASE("a buffer that was freed is forgotten by the peers, also when the next one takes its place", "[processes]") {
  const std::string log = log_of(2, {}, [](int rank, ncclComm_t comm) -> std::string {
    const auto mappings = [] {
      std::ifstream maps("/proc/self/maps");
      std::size_t count = 0;
      for (std::string line; std::getline(maps, line);) count += contains(line, "memfd:sccl") ? 1 : 0;
      return count;
    };
    std::size_t settled = 0;
    for (int i = 0; i < 30; ++i) {
      Buffer in(kCount), out(kCount);
      if (std::string wrong = all_reduce(rank, 2, comm, in, out, kCount); !wrong.empty()) return wrong;
      if (i == 2) settled = mappings();
    }
    return mappings() <= settled ? ""
                                 : "mappings pile up: " + std::to_string(settled) + ", " + std::to_string(mappings());
  });
  CAPTURE(log);
  CHECK_FALSE(log.starts_with("FAILED"));
  CHECK(contains(log, kInPlace));
}

TEST_CASE("a rank that never comes to compare buffers is named when the call is aborted", "[processes]") {
  // A busy machine may begin the call after the abort, which proves nothing: then again, with more time.
  std::vector<std::string> results;
  for (int pause_ms = 200; pause_ms < 20000; pause_ms *= 2) {
    const sccl_test::Stage ended;
    results = run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
      ncclComm_t comm = nullptr;
      if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
      if (rank == 1) {
        ended.await(1);
        ncclCommAbort(comm);
        return "";
      }
      Buffer in(kCount), out(kCount);
      std::thread aborter([comm, pause_ms] {
        ::usleep(static_cast<useconds_t>(pause_ms) * 1000);
        ncclCommAbort(comm);
      });
      const std::string wrong = all_reduce(rank, 2, comm, in, out, kCount);
      ended.next();
      aborter.join();
      return contains(wrong, "aborted while in AllReduce") && contains(wrong, "waiting for rank 1") ? ""
                                                                                                    : "told: " + wrong;
    });
    const std::string told = failures(results);
    if (!contains(told, "aborted before") && !contains(told, "was aborted: make a new one")) break;
  }
  CHECK(failures(results) == "");
}

TEST_CASE("a rank that dies before it compares buffers, and one that makes another call, are told", "[processes]") {
  const auto death = run_bare_world(Mode::processes, 2, [](int rank, const ncclUniqueId& id) -> std::string {
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
    Buffer in(kCount), out(kCount);
    if (std::string wrong = all_reduce(rank, 2, comm, in, out, kCount); !wrong.empty()) return wrong;
    if (rank == 1) ::_exit(0);
    const std::string wrong = all_reduce(rank, 2, comm, in, out, kCount);
    ncclCommAbort(comm);
    return contains(wrong, "rank 1") && contains(wrong, "ended") ? "" : "told: " + wrong;
  });
  CHECK(death[0] == "");
  const auto mismatch = run_bare_world(Mode::processes, 2, [](int rank, const ncclUniqueId& id) -> std::string {
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
    Buffer in(kCount), out(kCount);
    const std::string wrong = all_reduce(rank, 2, comm, in, out, rank == 0 ? kCount : 100);
    ncclCommAbort(comm);
    return contains(wrong, "count=" + std::to_string(kCount)) && contains(wrong, "count=100,") ? "" : "told: " + wrong;
  });
  CHECK(failures(mismatch) == "");
}
