// Groups, point-to-point transfers and InitAll through the C API.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <thread>

#include "world.h"

using namespace api_test;

namespace {

std::string describe(const char* what, ncclResult_t result) {
  return std::string(what) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(nullptr);
}

// AlltoAll by Send and Recv of sizes that depend on the pair, zero included, as PyTorch's all_to_all makes it.
std::string uneven_all_to_all(int rank, int ranks, ncclComm_t comm, std::size_t unit) {
  const auto size = [&](int from, int to) { return static_cast<std::size_t>((from + 2 * to) % 3) * unit; };
  std::vector<std::vector<int>> out;
  std::vector<std::vector<int>> in;
  for (int peer = 0; peer < ranks; ++peer) {
    out.emplace_back(size(rank, peer), rank * 100 + peer);
    in.emplace_back(size(peer, rank), -1);
  }
  if (ncclGroupStart() != ncclSuccess) return "ncclGroupStart";
  for (int peer = 0; peer < ranks; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    if (auto r = ncclSend(out[p].data(), out[p].size(), ncclInt32, peer, comm, nullptr); r != ncclSuccess)
      return describe("ncclSend", r);
    if (auto r = ncclRecv(in[p].data(), in[p].size(), ncclInt32, peer, comm, nullptr); r != ncclSuccess)
      return describe("ncclRecv", r);
  }
  if (auto r = ncclGroupEnd(); r != ncclSuccess) return describe("ncclGroupEnd", r);
  for (int peer = 0; peer < ranks; ++peer)
    for (const int value : in[static_cast<std::size_t>(peer)])
      if (value != peer * 100 + rank) return "wrong data from rank " + std::to_string(peer);
  return "";
}

// Rank 0 sends nothing, after a delay, where rank 1 receives five elements. What is wrong with what they are told.
std::string told_of_another_size(std::chrono::microseconds delay) {
  return failures(run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    ncclComm_t comm = nullptr;
    if (auto r = ncclCommInitRank(&comm, 2, id, rank); r != ncclSuccess) return describe("init", r);
    int values[5] = {1, 2, 3, 4, 5};
    if (rank == 0) std::this_thread::sleep_for(delay);
    const ncclResult_t result =
        rank == 0 ? ncclSend(values, 0, ncclInt32, 1, comm, nullptr) : ncclRecv(values, 5, ncclInt32, 0, comm, nullptr);
    const std::string told = ncclGetLastError(nullptr);
    ncclCommAbort(comm);
    // The sender hears of it from the receiver.
    if (result != ncclInvalidUsage || told.find("of another size") == std::string::npos)
      return describe("transfer", result) + ": " + told;
    return "";
  }));
}

}  // namespace

TEST_CASE("an uneven AlltoAll of Send and Recv in one group works at every size") {
  for (const Mode mode : modes())
    for (const int ranks : {1, 2, 3, 5})
      CHECK(failures(run_world(mode, ranks, [&](int rank, ncclComm_t comm) -> std::string {
              for (const std::size_t unit : {1u, 100u, 10000u, 100000u})
                for (int repeat = 0; repeat < 3; ++repeat)
                  if (auto failure = uneven_all_to_all(rank, ranks, comm, unit); !failure.empty()) return failure;
              return "";
            })) == "");
}

// The same group again needs no preparation.
TEST_CASE("repeated groups move the data of their own buffers, whatever was called between them") {
  constexpr int kRanks = 3;
  for (const Mode mode : modes())
    CHECK(failures(run_world(mode, kRanks, [](int rank, ncclComm_t comm) -> std::string {
            const int before = (rank + kRanks - 1) % kRanks;
            std::vector<int> out(400);
            std::vector<int> in(400);
            // All ranks draw the same numbers.
            unsigned drawn = 1;
            const auto below = [&](unsigned end) { return ((drawn = drawn * 1103515245 + 12345) >> 16) % end; };
            const std::size_t counts[] = {1, 1, 1, 0, 40, 100};
            for (int call = 0; call < 600; ++call) {
              if (below(4) == 0) {
                float sum = 1;
                if (auto r = ncclAllReduce(&sum, &sum, 1, ncclFloat32, ncclSum, comm, nullptr); r != ncclSuccess)
                  return describe("ncclAllReduce", r);
                if (sum != kRanks) return "wrong sum in call " + std::to_string(call);
              }
              const std::size_t count = counts[below(6)];
              int* const send = out.data() + below(300);
              int* const recv = in.data() + below(300);
              std::fill(out.begin(), out.end(), -2);
              std::fill(in.begin(), in.end(), -1);
              std::fill_n(send, count, 1000 * call + rank);
              ncclGroupStart();
              ncclSend(send, count, ncclInt32, (rank + 1) % kRanks, comm, nullptr);
              ncclRecv(recv, count, ncclInt32, before, comm, nullptr);
              if (auto r = ncclGroupEnd(); r != ncclSuccess) return describe("ncclGroupEnd", r);
              for (const int& value : in) {
                const bool is_received = &value >= recv && &value < recv + count;
                if (value != (is_received ? 1000 * call + before : -1))
                  return "wrong data in call " + std::to_string(call);
              }
            }
            return "";
          })) == "");
}

TEST_CASE("collectives and transfers of one group all happen", "[processes]") {
  CHECK(failures(run_world(Mode::processes, 3, [](int rank, ncclComm_t comm) -> std::string {
          std::vector<float> sum(1000, 1.0f);
          std::vector<float> gathered(3000, -1.0f);
          const std::vector<float> mine(1000, static_cast<float>(rank));
          float token = static_cast<float>(rank);
          float received = -1;
          ncclGroupStart();
          ncclSend(&token, 1, ncclFloat32, (rank + 1) % 3, comm, nullptr);
          ncclAllReduce(sum.data(), sum.data(), sum.size(), ncclFloat32, ncclSum, comm, nullptr);
          ncclRecv(&received, 1, ncclFloat32, (rank + 2) % 3, comm, nullptr);
          ncclAllGather(mine.data(), gathered.data(), mine.size(), ncclFloat32, comm, nullptr);
          if (auto r = ncclGroupEnd(); r != ncclSuccess) return describe("ncclGroupEnd", r);
          if (received != static_cast<float>((rank + 2) % 3)) return "wrong token";
          for (const float value : sum)
            if (value != 3.0f) return "wrong sum";
          for (std::size_t i = 0; i < gathered.size(); ++i)
            if (gathered[i] != static_cast<float>(i / 1000)) return "wrong gather";
          return "";
        })) == "");
}

TEST_CASE("Send and Recv outside a group meet a peer's", "[processes]") {
  CHECK(failures(run_world(Mode::processes, 2, [](int rank, ncclComm_t comm) -> std::string {
          for (const std::size_t count : {0u, 1u, 1000u, 1000000u}) {
            std::vector<int> data(count, rank == 0 ? 7 : 0);
            const auto result = rank == 0 ? ncclSend(data.data(), count, ncclInt32, 1, comm, nullptr)
                                          : ncclRecv(data.data(), count, ncclInt32, 0, comm, nullptr);
            if (result != ncclSuccess) return describe("transfer", result);
            for (const int value : data)
              if (value != 7) return "wrong data";
          }
          return "";
        })) == "");
}

TEST_CASE("one thread drives all ranks of ncclCommInitAll") {
  constexpr int kRanks = 4;
  ncclComm_t comms[kRanks];
  REQUIRE(ncclCommInitAll(comms, kRanks, nullptr) == ncclSuccess);
  std::vector<std::vector<double>> data(kRanks, std::vector<double>(50000, 2.0));
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < kRanks; ++rank) {
    auto& mine = data[static_cast<std::size_t>(rank)];
    CHECK(ncclAllReduce(mine.data(), mine.data(), mine.size(), ncclFloat64, ncclSum, comms[rank], nullptr) ==
          ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (const auto& mine : data) CHECK(std::accumulate(mine.begin(), mine.end(), 0.0) == 2.0 * kRanks * 50000);
  for (int rank = 0; rank < kRanks; ++rank) {
    int user_rank = -1;
    int count = -1;
    CHECK(ncclCommUserRank(comms[rank], &user_rank) == ncclSuccess);
    CHECK(ncclCommCount(comms[rank], &count) == ncclSuccess);
    CHECK(user_rank == rank);
    CHECK(count == kRanks);
    CHECK(ncclCommDestroy(comms[rank]) == ncclSuccess);
  }
}

TEST_CASE("transfers to self arrive in the order in which they were sent, whatever lies between") {
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          for (const std::size_t count : {1u, 3u, 20000u}) {
            constexpr int kTransfers = 4;
            std::vector<std::vector<int>> out, in(kTransfers, std::vector<int>(count, -1));
            for (int i = 0; i < kTransfers; ++i) out.emplace_back(count, 10 * rank + i);
            int other = rank;
            int received = -1;
            ncclGroupStart();
            // The first receive comes before the first send, and the peer's transfers come between them.
            ncclRecv(in[0].data(), count, ncclInt32, rank, comm, nullptr);
            for (int i = 0; i < kTransfers; ++i) {
              ncclSend(out[static_cast<std::size_t>(i)].data(), count, ncclInt32, rank, comm, nullptr);
              if (i == 1) ncclSend(&other, 1, ncclInt32, 1 - rank, comm, nullptr);
              if (i == 2) ncclRecv(&received, 1, ncclInt32, 1 - rank, comm, nullptr);
            }
            for (std::size_t i = 1; i < kTransfers; ++i) ncclRecv(in[i].data(), count, ncclInt32, rank, comm, nullptr);
            if (auto r = ncclGroupEnd(); r != ncclSuccess) return describe("ncclGroupEnd", r);
            if (received != 1 - rank) return "the peer's value is " + std::to_string(received);
            for (std::size_t i = 0; i < kTransfers; ++i)
              if (in[i] != out[i]) return "receive " + std::to_string(i) + " got " + std::to_string(in[i][0]);
          }
          return "";
        })) == "");
}

TEST_CASE("a transfer of no bytes that meets one of some is told") {
  CHECK(told_of_another_size(std::chrono::microseconds(0)) == "");
}

// The receiver looks once more before it sleeps: at whatever moment the wrong transfer comes, its own text is told.
TEST_CASE("a transfer of another size is told at whatever moment it comes") {
  for (int tens_of_us = 0; tens_of_us < 60; ++tens_of_us)
    CHECK(told_of_another_size(std::chrono::microseconds(10 * tens_of_us)) == "");
}

TEST_CASE("a transfer to self needs its twin in the group") {
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          int value = 1;
          if (rank == 0 && ncclSend(&value, 1, ncclInt32, 0, comm, nullptr) != ncclInvalidUsage) return "was accepted";
          return "";
        })) == "");
}

TEST_CASE("ncclGroupEnd without a group is invalid usage") {
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK(std::string(ncclGetLastError(nullptr)) != "");
}

TEST_CASE("a group that makes communicators and communicates is refused as a whole, and leaves nothing behind") {
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          ncclUniqueId id;
          if (auto r = ncclGetUniqueId(&id); r != ncclSuccess) return describe("id", r);
          ncclComm_t single = nullptr;
          float value = 1;
          ncclGroupStart();
          ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
          ncclCommInitRank(&single, 1, id, 0);
          if (ncclGroupEnd() != ncclInvalidUsage) return "was accepted";
          if (value != 1) return "the refused call took place";
          if (single != nullptr) ncclCommAbort(single);
          if (ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess || value != 2)
            return describe("the next call", ncclInternalError);
          return "";
        })) == "");
}

TEST_CASE("the first error inside a group is returned by its end, and the group is over") {
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          float value = 1;
          ncclGroupStart();
          if (ncclAllReduce(&value, &value, 1, static_cast<ncclDataType_t>(99), ncclSum, comm, nullptr) !=
              ncclInvalidArgument)
            return "a wrong type was accepted";
          ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
          if (ncclGroupEnd() != ncclInvalidArgument) return "the group's end hid the error";
          if (ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess || value != 2)
            return "the communicator is not usable after a refused group";
          return "";
        })) == "");
}
