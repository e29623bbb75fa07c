// Reductions by the ranks that are there (SCCL_ARRIVAL): right, over a fixed tree with the same bits whoever comes
// when, among other calls, and told when ranks disagree.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>
#include <thread>

#include "collective_case.h"
#include "stage.h"
#include "world.h"

using namespace api_test;

namespace {

class Eager {
 public:
  explicit Eager(const char* form = "eager") { ::setenv("SCCL_ARRIVAL", form, 1); }
  ~Eager() { ::unsetenv("SCCL_ARRIVAL"); }
  Eager(const Eager&) = delete;
  Eager& operator=(const Eager&) = delete;
};

// With this limit each rank has the least memory for these reductions: kMost floats, twice.
class LeastMemory {
 public:
  LeastMemory() { ::setenv("SCCL_MEM_LIMIT", "16000000", 1); }
  ~LeastMemory() { ::unsetenv("SCCL_MEM_LIMIT"); }
  LeastMemory(const LeastMemory&) = delete;
  LeastMemory& operator=(const LeastMemory&) = delete;
};

constexpr const char* kForms[] = {"eager", "leader", "chain"};

constexpr std::size_t kSlice = 8192;  // floats
constexpr std::size_t kMost = std::size_t{1} << 20;

std::string reductions(int rank, int ranks, ncclComm_t comm, const std::vector<std::size_t>& counts) {
  std::size_t turn = 0;
  for (const KindInfo& kind : kinds()) {
    if (!kind.reduces) continue;
    for (const std::size_t count : counts)
      for (const TypeInfo& type : types())
        for (const bool in_place : {false, true}) {
          const Case test{&kind,    &type,    kOps[turn++ % std::size(kOps)], count,
                          in_place, turn % 2, static_cast<int>(turn) % ranks};
          if (std::string wrong = run_case(test, rank, ranks, comm); !wrong.empty()) return wrong;
        }
  }
  return "";
}

// Sums of random numbers, which rounding makes depend on the order of additions; a hash of the bits.
std::uint64_t sum_by_chance(int rank, ncclComm_t comm, unsigned when) {
  constexpr std::size_t kCount = 3 * kSlice + 5;
  std::mt19937 random(static_cast<unsigned>(rank));
  std::uniform_real_distribution<float> any(-1, 1);
  std::vector<float> data(kCount);
  for (float& element : data) element = any(random);
  std::mt19937 late(when * 31 + static_cast<unsigned>(rank));
  std::this_thread::sleep_for(std::chrono::microseconds(late() % 3 * (late() % 2000)));
  if (ncclAllReduce(data.data(), data.data(), kCount, ncclFloat, ncclSum, comm, nullptr) != ncclSuccess) return 0;
  std::uint64_t hash = 1469598103934665603u;
  for (const float element : data) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &element, sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
  }
  return hash;
}

}  // namespace

TEST_CASE("ranks that are there reduce every type with every operation") {
  for (const char* form : kForms) {
    const Eager eager(form);
    INFO(form);
    for (const Mode mode : modes())
      for (const int ranks : {2, 3, 8})
        CHECK(failures(run_world(mode, ranks, [&](int rank, ncclComm_t comm) {
                return reductions(rank, ranks, comm, {1, 3, 1023, kSlice + 1});
              })) == "");
  }
}

TEST_CASE("the longest buffers that ranks reduce as they come, and longer ones") {
  const LeastMemory least;
  for (const char* form : kForms) {
    const Eager eager(form);
    INFO(form);
    CHECK(failures(run_world(Mode::threads, 4, [&](int rank, ncclComm_t comm) -> std::string {
            for (const std::size_t count : {kMost - 1, kMost, kMost + 1}) {
              std::vector<float> data(count, static_cast<float>(rank));
              if (ncclAllReduce(data.data(), data.data(), count, ncclFloat, ncclSum, comm, nullptr) != ncclSuccess)
                return ncclGetLastError(comm);
              if (std::any_of(data.begin(), data.end(), [](float element) { return element != 6; }))
                return "wrong data";
            }
            return "";
          })) == "");
  }
}

// What 2 ranks have for sums holds 4 Mi floats: these calls go round, one rank at a time ahead.
TEST_CASE("a chain and a tree reduce buffers that are longer than their memory") {
  const Eager form(GENERATE("chain", "eager"));
  const LeastMemory least;
  constexpr std::size_t kCount = 5 * kMost + 17;
  for (const Mode mode : modes())
    CHECK(failures(run_world(mode, 2, [&](int rank, ncclComm_t comm) -> std::string {
            std::vector<float> data(kCount), out(kCount);
            for (std::size_t at = 0; at < kCount; ++at) data[at] = static_cast<float>(at % 1000 + 1) * float(rank + 1);
            for (int call = 0; call < 3; ++call) {
              if (call % 2 == rank) std::this_thread::sleep_for(std::chrono::milliseconds(5));
              ncclResult_t result = ncclAllReduce(data.data(), out.data(), kCount, ncclFloat, ncclSum, comm, nullptr);
              if (result != ncclSuccess) return ncclGetLastError(comm);
              for (std::size_t at = 0; at < kCount; ++at)
                if (out[at] != static_cast<float>(at % 1000 + 1) * 3) return "wrong data at " + std::to_string(at);
              std::fill(out.begin(), out.end(), -1.0f);
              result = ncclReduce(data.data(), out.data(), kCount, ncclFloat, ncclSum, call % 2, comm, nullptr);
              if (result != ncclSuccess) return ncclGetLastError(comm);
              const bool root = call % 2 == rank;
              for (std::size_t at = 0; at < kCount; ++at)
                if (out[at] != (root ? static_cast<float>(at % 1000 + 1) * 3 : -1)) return "wrong data at the root";
              result = ncclReduceScatter(data.data(), out.data(), kCount / 2, ncclFloat, ncclSum, comm, nullptr);
              if (result != ncclSuccess) return ncclGetLastError(comm);
              for (std::size_t at = 0; at < kCount / 2; ++at)
                if (out[at] != static_cast<float>((static_cast<std::size_t>(rank) * (kCount / 2) + at) % 1000 + 1) * 3)
                  return "wrong part";
            }
            return "";
          })) == "");
}

TEST_CASE("sums in the order of arrival have the same bits at all ranks") {
  for (const char* form : {"leader", "chain"}) {
    const Eager eager(form);
    const auto texts = run_world(Mode::threads, 5, [&](int rank, ncclComm_t comm) {
      std::string bits;
      for (unsigned call = 0; call < 40; ++call) bits += std::to_string(sum_by_chance(rank, comm, call)) + " ";
      return bits;
    });
    CHECK(texts[0].find(" 0 ") == std::string::npos);
    for (const std::string& text : texts)
      CHECK(text.substr(text.find_first_of("0123456789", text.find(':') + 1)) ==
            texts[0].substr(texts[0].find_first_of("0123456789", texts[0].find(':') + 1)));
  }
}

TEST_CASE("a deterministic job does not add floats in the order of arrival") {
  const auto bits = [] {
    return run_world(Mode::threads, 5, [&](int rank, ncclComm_t comm) {
      std::string all;
      for (unsigned call = 0; call < 20; ++call) all += std::to_string(sum_by_chance(rank, comm, call)) + " ";
      return all;
    })[0];
  };
  const std::string usual = bits();
  ::setenv("SCCL_DETERMINISTIC", "1", 1);
  for (const char* form : {"leader", "chain"}) {
    const Eager eager(form);
    CHECK(bits() == usual);
  }
  ::unsetenv("SCCL_DETERMINISTIC");
  CHECK(usual.find(" 0 ") == std::string::npos);
}

TEST_CASE("sums have the same bits whoever comes when, at all ranks and in every run") {
  const Eager eager;
  std::vector<std::string> seen;
  for (unsigned run = 0; run < 3; ++run)
    for (const std::string& text : run_world(Mode::threads, 5, [&](int rank, ncclComm_t comm) {
           std::string bits;
           for (unsigned call = 0; call < 20; ++call)
             bits += std::to_string(sum_by_chance(rank, comm, run * 100 + call)) + " ";
           return bits;
         }))
      seen.push_back(text.substr(text.find_first_of("0123456789", text.find(':') + 1)));
  for (const std::string& one : seen) CHECK(one == seen.front());
  std::istringstream words(seen.front());
  std::string first, other;
  words >> first;
  CHECK(first != "0");
  while (words >> other) CHECK(other == first);
}

TEST_CASE("reductions as ranks come, and calls of other kinds, may follow one another and lie in groups") {
  const Eager eager(GENERATE_COPY(from_range(std::begin(kForms), std::end(kForms))));
  for (const Mode mode : modes())
    CHECK(failures(run_world(mode, 4, [&](int rank, ncclComm_t comm) -> std::string {
            for (int round = 0; round < 20; ++round) {
              std::vector<float> sum(100 * static_cast<std::size_t>(round) + 1, 1), all(4), one(1, 1), got(1);
              const float own = static_cast<float>(rank);
              bool well = ncclAllReduce(sum.data(), sum.data(), sum.size(), ncclFloat, ncclSum, comm, nullptr) == 0;
              well = well && ncclAllGather(&own, all.data(), 1, ncclFloat, comm, nullptr) == 0;
              ncclGroupStart();
              well = well && ncclAllReduce(one.data(), one.data(), 1, ncclFloat, ncclMax, comm, nullptr) == 0;
              well = well && ncclSend(&own, 1, ncclFloat, (rank + 1) % 4, comm, nullptr) == 0;
              well = well && ncclRecv(got.data(), 1, ncclFloat, (rank + 3) % 4, comm, nullptr) == 0;
              well = well && ncclReduce(&own, &all[static_cast<std::size_t>(rank)], 1, ncclFloat, ncclSum, round % 4,
                                        comm, nullptr) == 0;
              well = ncclGroupEnd() == 0 && well;
              if (!well) return ncclGetLastError(comm);
              if (sum.back() != 4 || one[0] != 1 || got[0] != static_cast<float>((rank + 3) % 4) ||
                  all[static_cast<std::size_t>(rank)] != (rank == round % 4 ? 6 : own))
                return "wrong data in round " + std::to_string(round);
            }
            return "";
          })) == "");
}

TEST_CASE("ranks that reduce different counts as they come are told both calls") {
  const Eager eager(GENERATE_COPY(from_range(std::begin(kForms), std::end(kForms))));
  for (const std::size_t more : {std::size_t{1}, 3 * kSlice})
    for (const std::string& text : run_world(Mode::threads, 3, [&](int rank, ncclComm_t comm) -> std::string {
           std::vector<float> data(10 + 3 * kSlice, 1);
           const std::size_t count = rank == 1 ? 10 + more : 10;
           return ncclAllReduce(data.data(), data.data(), count, ncclFloat, ncclSum, comm, nullptr) == ncclInvalidUsage
                      ? ncclGetLastError(comm)
                      : "nothing was told";
         })) {
      CHECK_THAT(text, Catch::Contains("count=10,") && Catch::Contains("count=" + std::to_string(10 + more)));
    }
}

TEST_CASE("a rank that does not come is named, and nobody waits for it after an abort") {
  const Eager eager(GENERATE_COPY(from_range(std::begin(kForms), std::end(kForms))));
  ::setenv("SCCL_TIMEOUT_MS", "1000", 1);
  const sccl_test::Stage ready, ended;
  const auto texts = run_world(Mode::threads, 4, [&](int rank, ncclComm_t comm) -> std::string {
    if (rank == 2) {
      ended.await(3);
      return "";
    }
    ready.next();
    ready.await(3);
    float value = 1;
    const std::string text = ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr) == ncclSuccess
                                 ? "passed"
                                 : ncclGetLastError(comm);
    ended.next();
    ended.await(3);  // nobody leaves before all know whom they miss
    return text;
  });
  ::unsetenv("SCCL_TIMEOUT_MS");
  for (const int rank : {0, 1, 3})
    CHECK_THAT(texts[static_cast<std::size_t>(rank)],
               Catch::Contains("waiting for rank 2") || Catch::Contains("rank 2"));
}

TEST_CASE("results stay right while the library goes over to reducing as ranks come, and back") {
  const Eager automatic("auto");
  for (const Mode mode : modes())
    CHECK(failures(run_world(mode, 3, [&](int rank, ncclComm_t comm) -> std::string {
            for (int phase = 0; phase < 4; ++phase)
              for (int call = 0; call < 60; ++call) {
                if (phase % 2 == 1 && rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                std::vector<int> data(5000, rank + call);
                if (ncclAllReduce(data.data(), data.data(), data.size(), ncclInt, ncclSum, comm, nullptr) !=
                    ncclSuccess)
                  return ncclGetLastError(comm);
                if (std::any_of(data.begin(), data.end(), [&](int value) { return value != 3 + 3 * call; }))
                  return "wrong data in call " + std::to_string(call) + " of phase " + std::to_string(phase);
              }
            return "";
          })) == "");
}

TEST_CASE("where the order of additions matters, the library does not change it unasked") {
  const Eager automatic("auto");
  const auto bits = [](bool late) {
    return run_world(Mode::threads, 5, [&](int rank, ncclComm_t comm) {
      std::string all;
      for (unsigned call = 0; call < 60; ++call) {
        if (late && rank == 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        all += std::to_string(sum_by_chance(rank, comm, 0)) + " ";
      }
      return all;
    })[0];
  };
  const std::string balanced = bits(false);
  CHECK(balanced == bits(true));
  CHECK(balanced.find(" 0 ") == std::string::npos);
}
