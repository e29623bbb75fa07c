// Short calls of one root, in which ranks that only send run ahead of the others.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <thread>

#include "collective_case.h"
#include "world.h"

using namespace api_test;

namespace {

const KindInfo& kind_of(Kind wanted) {
  return *std::find_if(kinds().begin(), kinds().end(), [&](const KindInfo& kind) { return kind.kind == wanted; });
}

const TypeInfo& bytes_type() {
  return *std::find_if(types().begin(), types().end(), [](const TypeInfo& type) { return type.bytes == 1; });
}

bool wait_for(const std::atomic<int>& flag) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (flag == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return flag != 0;
}

}  // namespace

TEST_CASE("a root makes many short broadcasts before another rank has come to the first") {
  constexpr int kCalls = 25;
  for (const int ranks : {2, 4})
    for (const std::size_t bytes : {64, 4096, 8192, 32768}) {
      INFO(ranks << " ranks, " << bytes << " bytes");
      std::atomic<int> ahead{0};
      const auto results = run_world(Mode::threads, ranks, [&](int rank, ncclComm_t comm) -> std::string {
        if (rank != 0 && !wait_for(ahead)) return "the root waits for rank " + std::to_string(rank);
        for (int call = 0; call < kCalls; ++call) {
          std::vector<char> data(bytes, static_cast<char>(rank == 0 ? call + 1 : 0));
          if (ncclBroadcast(data.data(), data.data(), bytes, ncclInt8, 0, comm, nullptr) != ncclSuccess)
            return ncclGetLastError(nullptr);
          if (data.front() != call + 1 || data.back() != call + 1) return "wrong data in call " + std::to_string(call);
        }
        if (rank == 0) ahead = 1;
        return "";
      });
      CHECK(failures(results) == "");
    }
}

// Rings of every depth go round many times, full and empty, while slots lent to others come back late.
TEST_CASE("short and long calls of all roots follow one another at ranks that come late by turns",
          "[slow][processes]") {
  const Kind some[] = {Kind::broadcast, Kind::broadcast, Kind::reduce, Kind::gather, Kind::scatter, Kind::allreduce};
  const std::size_t sizes[] = {1, 100, 4095, 4096, 4097, 16384, 16385, 32768, 32769, 140000};
  for (const int ranks : {2, 3, 8, 9}) {
    const unsigned seed = std::random_device{}();
    INFO(ranks << " ranks, seed " << seed);
    const auto results = run_world(Mode::processes, ranks, [&](int rank, ncclComm_t comm) -> std::string {
      std::mt19937 alike(seed);
      std::mt19937 own(seed + static_cast<unsigned>(rank));
      for (int series = 0; series < 12; ++series) {
        const int root = static_cast<int>(alike() % static_cast<unsigned>(ranks));
        for (int call = 0; call < 40; ++call) {
          const KindInfo& kind = kind_of(some[alike() % std::size(some)]);
          const std::size_t count = sizes[alike() % std::size(sizes)];
          if (own() % 40 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 3000));
          const Case test{&kind, &bytes_type(), Op::max, count, false, 0, kind.rooted ? root : 0};
          if (std::string failure = run_case(test, rank, ranks, comm); !failure.empty()) return failure;
        }
      }
      return "";
    });
    CHECK(failures(results) == "");
  }
}

// A lane that is ahead of the others is held back, and what it waited for when it was tried last may have come since.
TEST_CASE("a rank that is done with a Gather is not accused while the root waits for another one", "[processes]") {
  constexpr std::size_t kCount = 700001;
  for (const Mode mode : modes())
    CHECK(failures(run_world(mode, 4, [](int rank, ncclComm_t comm) -> std::string {
            const std::vector<float> send(kCount, static_cast<float>(rank));
            std::vector<float> recv(rank == 0 ? 4 * kCount : 0);
            for (int late = 1; late < 4; ++late) {
              if (rank == late) ::usleep(150000);
              if (ncclGather(send.data(), recv.data(), kCount, ncclFloat32, 0, comm, nullptr) != ncclSuccess)
                return ncclGetLastError(nullptr);
              for (std::size_t i = 0; i < recv.size(); ++i)
                if (recv[i] != static_cast<float>(i / kCount)) return "wrong data";
            }
            return "";
          })) == "");
}
