// A call that finds no memory fails, and so does the group that it belongs to: no call of it is made. The other ranks
// are told, and the communicator either goes on or has failed for all.
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "nccl_shim/nccl.h"
#include "shortage.h"

using sccl_test::Shortage;

namespace {

constexpr std::size_t kCount = 100;

struct Buffers {
  std::vector<float> from = std::vector<float>(2 * kCount, 1);
  std::vector<float> to = std::vector<float>(2 * kCount, 0);
};

using Call = std::function<ncclResult_t(Buffers& data, ncclComm_t comm, int peer)>;
struct NamedCall {
  const char* name;
  Call call;
};

template <typename Calls>
ncclResult_t in_group(Calls&& calls) {
  ncclGroupStart();
  const ncclResult_t first = calls();
  const ncclResult_t end = ncclGroupEnd();
  return first != ncclSuccess ? first : end;
}

// Every call that moves data. `peer`: the other one of two ranks, or the only one itself.
const std::vector<NamedCall>& data_calls() {
  static const std::vector<NamedCall> calls{
      {"AllReduce",
       [](Buffers& b, ncclComm_t c, int) {
         return ncclAllReduce(b.from.data(), b.to.data(), kCount, ncclFloat, ncclSum, c, nullptr);
       }},
      {"Reduce", [](Buffers& b, ncclComm_t c,
                    int) { return ncclReduce(b.from.data(), b.to.data(), kCount, ncclFloat, ncclSum, 0, c, nullptr); }},
      {"ReduceScatter",
       [](Buffers& b, ncclComm_t c, int) {
         return ncclReduceScatter(b.from.data(), b.to.data(), kCount, ncclFloat, ncclSum, c, nullptr);
       }},
      {"AllGather", [](Buffers& b, ncclComm_t c,
                       int) { return ncclAllGather(b.from.data(), b.to.data(), kCount, ncclFloat, c, nullptr); }},
      {"Broadcast", [](Buffers& b, ncclComm_t c,
                       int) { return ncclBroadcast(b.from.data(), b.to.data(), kCount, ncclFloat, 0, c, nullptr); }},
      {"Bcast",
       [](Buffers& b, ncclComm_t c, int) { return ncclBcast(b.from.data(), kCount, ncclFloat, 0, c, nullptr); }},
      {"AlltoAll", [](Buffers& b, ncclComm_t c,
                      int) { return ncclAlltoAll(b.from.data(), b.to.data(), kCount, ncclFloat, c, nullptr); }},
      {"Gather", [](Buffers& b, ncclComm_t c,
                    int) { return ncclGather(b.from.data(), b.to.data(), kCount, ncclFloat, 0, c, nullptr); }},
      {"Scatter", [](Buffers& b, ncclComm_t c,
                     int) { return ncclScatter(b.from.data(), b.to.data(), kCount, ncclFloat, 0, c, nullptr); }},
      {"Send and Recv",
       [](Buffers& b, ncclComm_t c, int peer) {
         const ncclResult_t sent = ncclSend(b.from.data(), kCount, ncclFloat, peer, c, nullptr);
         const ncclResult_t received = ncclRecv(b.to.data(), kCount, ncclFloat, peer, c, nullptr);
         return sent != ncclSuccess ? sent : received;
       }},
      {"AllReduceConfig",
       [](Buffers& b, ncclComm_t c, int) {
         return ncclAllReduceConfig(b.from.data(), b.to.data(), kCount, ncclFloat, ncclSum, c, nullptr, nullptr);
       }},
      {"ReduceConfig",
       [](Buffers& b, ncclComm_t c, int) {
         return ncclReduceConfig(b.from.data(), b.to.data(), kCount, ncclFloat, ncclSum, 0, c, nullptr, nullptr);
       }},
      {"ReduceScatterConfig",
       [](Buffers& b, ncclComm_t c, int) {
         return ncclReduceScatterConfig(b.from.data(), b.to.data(), kCount, ncclFloat, ncclSum, c, nullptr, nullptr);
       }},
      {"AllGatherConfig",
       [](Buffers& b, ncclComm_t c, int) {
         return ncclAllGatherConfig(b.from.data(), b.to.data(), kCount, ncclFloat, c, nullptr, nullptr);
       }},
      {"BroadcastConfig",
       [](Buffers& b, ncclComm_t c, int) {
         return ncclBroadcastConfig(b.from.data(), b.to.data(), kCount, ncclFloat, 0, c, nullptr, nullptr);
       }},
      {"AlltoAllConfig",
       [](Buffers& b, ncclComm_t c, int) {
         return ncclAlltoAllConfig(b.from.data(), b.to.data(), kCount, ncclFloat, c, nullptr, nullptr);
       }},
      {"GatherConfig",
       [](Buffers& b, ncclComm_t c, int) {
         return ncclGatherConfig(b.from.data(), b.to.data(), kCount, ncclFloat, 0, c, nullptr, nullptr);
       }},
      {"ScatterConfig",
       [](Buffers& b, ncclComm_t c, int) {
         return ncclScatterConfig(b.from.data(), b.to.data(), kCount, ncclFloat, 0, c, nullptr, nullptr);
       }},
  };
  return calls;
}

// Few at first, then in growing steps: a first call makes plans, with thousands of allocations.
long next_shortage(long allocations) { return allocations < 8 ? allocations + 1 : allocations + allocations / 3; }

// Two ranks of this process.
class Pair {
 public:
  Pair() { REQUIRE(ncclCommInitAll(comms_.data(), 2, std::array{0, 0}.data()) == ncclSuccess); }
  ~Pair() {
    for (const ncclComm_t comm : comms_) ncclCommAbort(comm);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ncclComm_t operator[](std::size_t rank) const { return comms_[rank]; }

 private:
  std::array<ncclComm_t, 2> comms_{};
};

struct Outcome {
  bool was_short = false;
  std::string wrong;
};

// Rank 0 makes the call without memory after so many allocations; rank 1 has memory.
Outcome call_without_memory(const Call& call, long allocations) {
  const Pair pair;
  Outcome outcome;
  Buffers data[2];
  ncclResult_t other = ncclSuccess;
  std::thread peer([&] { other = call(data[1], pair[1], 0); });
  ncclResult_t result = ncclSuccess;
  {
    const Shortage shortage(allocations);
    result = call(data[0], pair[0], 1);
    outcome.was_short = shortage.was_felt();
  }
  const std::string told = ncclGetLastError(pair[0]);
  ncclResult_t state = ncclSuccess;
  ncclCommGetAsyncError(pair[0], &state);
  if (result != ncclSuccess && state == ncclSuccess) {  // the communicator goes on: so does the other rank
    if (call(data[0], pair[0], 1) != ncclSuccess) outcome.wrong += "the call cannot be made again; ";
  }
  peer.join();
  if (result == ncclSuccess && state != ncclSuccess) outcome.wrong += "failed although the call succeeded; ";
  if (result != ncclSuccess && told.find("memory") == std::string::npos) outcome.wrong += "told: " + told + "; ";
  if (state == ncclSuccess && other != ncclSuccess) outcome.wrong += "only the other rank failed; ";
  if (state == ncclSuccess) return outcome;
  // Who needs nothing of rank 0 learns of it by its next call.
  Buffers next;
  if (other == ncclSuccess) other = data_calls().front().call(next, pair[1], 0);
  const std::string last = ncclGetLastError(pair[1]);
  if (other == ncclSuccess) outcome.wrong += "the other rank got no error";
  if (last.find("memory") == std::string::npos) outcome.wrong += "the other rank was told: " + last;
  return outcome;
}

}  // namespace

TEST_CASE("a group in which a call found no memory makes none of its calls, and the communicator goes on") {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  REQUIRE(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
  for (const NamedCall& named : data_calls()) {
    Buffers data;
    const auto call = [&] { return named.call(data, comm, 0); };
    bool enough = false;
    int shortages = 0;
    for (long allocations = 0; !enough; ++allocations) {
      INFO(named.name << " after " << allocations << " allocations");
      ncclResult_t result = ncclSuccess;
      REQUIRE(ncclGroupStart() == ncclSuccess);
      {
        const Shortage shortage(allocations);
        result = call();
        enough = !shortage.was_felt();
      }
      if (result == ncclSuccess) {
        CHECK(ncclGroupEnd() == ncclSuccess);
        continue;
      }
      ++shortages;
      CHECK(call() == ncclSuccess);
      CHECK(ncclGroupEnd() == ncclSystemError);
      CHECK_THAT(ncclGetLastError(comm), Catch::Contains("memory"));
      CHECK(data.to[0] == 0);
    }
    INFO(named.name);
    CHECK(shortages > 0);
    CHECK(data.to[0] == (named.name == std::string("Bcast") ? 0 : 1));
  }
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("a call that finds no memory tells so, and the other rank does not wait for it") {
  ::setenv("SCCL_TIMEOUT_MS", "20000", 1);  // who waits gets another text than who is told
  for (const NamedCall& named : data_calls()) {
    int shortages = 0;
    for (long allocations = 0;; allocations = next_shortage(allocations)) {
      INFO(named.name << " after " << allocations << " allocations");
      const bool is_transfer = named.name == std::string("Send and Recv");
      const Call grouped = [&](Buffers& data, ncclComm_t comm, int peer) {
        return in_group([&] { return named.call(data, comm, peer); });
      };
      const Outcome outcome = call_without_memory(is_transfer ? grouped : named.call, allocations);
      CHECK(outcome.wrong == "");
      if (!outcome.was_short) break;
      ++shortages;
    }
    INFO(named.name);
    CHECK(shortages > 0);
  }
  ::unsetenv("SCCL_TIMEOUT_MS");
}
