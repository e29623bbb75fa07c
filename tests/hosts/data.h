// Every collective, Send and Recv, groups and calls in place, against results that are worked out here: element `at` of
// rank r is a small integer, so that sums are exact in every order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nccl_shim/nccl.h"

namespace hosts_test {

class DataCheck {
 public:
  DataCheck(ncclComm_t comm, int rank, int ranks) : comm_(comm), rank_(rank), ranks_(ranks) {}

  // "ok", or which call failed and how.
  std::string run(std::size_t count) {
    for (int round = 0; round < 2; ++round) {
      seed_ = count * 31 + static_cast<std::size_t>(round);
      all_reduce(count, false);
      all_reduce(count, true);
      all_gather(count);
      reduce_scatter(count);
      for (const int root : {0, ranks_ - 1}) {
        broadcast(count, root);
        reduce(count, root);
        gather(count, root);
        scatter(count, root);
      }
      all_to_all(count);
      ring(count);
      pairs(count);
      if (!failure_.empty()) return failure_;
    }
    return "ok";
  }

 private:
  using Data = std::vector<float>;

  float element(int rank, std::size_t at) const {
    return static_cast<float>((static_cast<std::size_t>(rank) * 37 + at * 3 + seed_ + at / 1021) % 101);
  }
  float sum(std::size_t at) const {
    float total = 0;
    for (int rank = 0; rank < ranks_; ++rank) total += element(rank, at);
    return total;
  }
  Data mine(std::size_t count, std::size_t from = 0) const {
    Data data(count);
    for (std::size_t at = 0; at < count; ++at) data[at] = element(rank_, from + at);
    return data;
  }
  std::size_t all(std::size_t count) const { return count * static_cast<std::size_t>(ranks_); }

  template <typename Expected>
  void check(const char* what, ncclResult_t result, const Data& data, Expected&& expected) {
    if (!failure_.empty()) return;
    if (result != ncclSuccess) {
      failure_ = std::string(what) + ": error " + std::to_string(result) + " " + ncclGetLastError(comm_);
      for (char& letter : failure_)
        if (letter == '\n') letter = ' ';
      return;
    }
    for (std::size_t at = 0; at < data.size(); ++at)
      if (data[at] != expected(at)) {
        failure_ = std::string(what) + ": element " + std::to_string(at) + " of " + std::to_string(data.size()) +
                   " is " + std::to_string(data[at]) + " instead of " + std::to_string(expected(at));
        return;
      }
  }

  void all_reduce(std::size_t count, bool in_place) {
    Data in = mine(count);
    Data out(count);
    Data& result = in_place ? in : out;
    check(in_place ? "AllReduce in place" : "AllReduce",
          ncclAllReduce(in.data(), result.data(), count, ncclFloat32, ncclSum, comm_, nullptr), result,
          [&](std::size_t at) { return sum(at); });
  }
  void all_gather(std::size_t count) {
    const Data in = mine(count);
    Data out(all(count));
    check("AllGather", ncclAllGather(in.data(), out.data(), count, ncclFloat32, comm_, nullptr), out,
          [&](std::size_t at) { return element(static_cast<int>(at / count), at % count); });
  }
  void reduce_scatter(std::size_t count) {
    const Data in = mine(all(count));
    Data out(count);
    const std::size_t first = count * static_cast<std::size_t>(rank_);
    check("ReduceScatter", ncclReduceScatter(in.data(), out.data(), count, ncclFloat32, ncclSum, comm_, nullptr), out,
          [&](std::size_t at) { return sum(first + at); });
  }
  void broadcast(std::size_t count, int root) {
    Data data = mine(count);
    check("Broadcast", ncclBroadcast(data.data(), data.data(), count, ncclFloat32, root, comm_, nullptr), data,
          [&](std::size_t at) { return element(root, at); });
  }
  void reduce(std::size_t count, int root) {
    const Data in = mine(count);
    Data out(count);
    const ncclResult_t result = ncclReduce(in.data(), out.data(), count, ncclFloat32, ncclSum, root, comm_, nullptr);
    if (rank_ != root) out.clear();
    check("Reduce", result, out, [&](std::size_t at) { return sum(at); });
  }
  void gather(std::size_t count, int root) {
    const Data in = mine(count);
    Data out(rank_ == root ? all(count) : 0);
    check("Gather", ncclGather(in.data(), out.data(), count, ncclFloat32, root, comm_, nullptr), out,
          [&](std::size_t at) { return element(static_cast<int>(at / count), at % count); });
  }
  void scatter(std::size_t count, int root) {
    const Data in = mine(rank_ == root ? all(count) : 0);
    Data out(count);
    const std::size_t first = count * static_cast<std::size_t>(rank_);
    check("Scatter", ncclScatter(in.data(), out.data(), count, ncclFloat32, root, comm_, nullptr), out,
          [&](std::size_t at) { return element(root, first + at); });
  }
  void all_to_all(std::size_t count) {
    const Data in = mine(all(count));
    Data out(all(count));
    const std::size_t first = count * static_cast<std::size_t>(rank_);
    check("AlltoAll", ncclAlltoAll(in.data(), out.data(), count, ncclFloat32, comm_, nullptr), out,
          [&](std::size_t at) { return element(static_cast<int>(at / count), first + at % count); });
  }
  // To the next rank, from the one before.
  void ring(std::size_t count) {
    const int before = (rank_ + ranks_ - 1) % ranks_;
    const Data in = mine(count);
    Data out(count);
    ncclGroupStart();
    ncclSend(in.data(), count, ncclFloat32, (rank_ + 1) % ranks_, comm_, nullptr);
    ncclRecv(out.data(), count, ncclFloat32, before, comm_, nullptr);
    check("Send and Recv in a group", ncclGroupEnd(), out, [&](std::size_t at) { return element(before, at); });
  }
  // One after another, rank 0 with every other one, and transfers of no bytes.
  void pairs(std::size_t count) {
    for (int other = 1; other < ranks_; ++other) {
      Data data = mine(count);
      if (rank_ == 0) {
        check("Send", ncclSend(data.data(), count, ncclFloat32, other, comm_, nullptr), {},
              [](std::size_t) { return 0; });
        check("Recv", ncclRecv(data.data(), count, ncclFloat32, other, comm_, nullptr), data,
              [&](std::size_t at) { return element(0, at) + 1; });
        check("Send of nothing", ncclSend(data.data(), 0, ncclFloat32, other, comm_, nullptr), {},
              [](std::size_t) { return 0; });
      } else if (rank_ == other) {
        check("Recv", ncclRecv(data.data(), count, ncclFloat32, 0, comm_, nullptr), data,
              [&](std::size_t at) { return element(0, at); });
        for (float& value : data) value += 1;
        check("Send", ncclSend(data.data(), count, ncclFloat32, 0, comm_, nullptr), {}, [](std::size_t) { return 0; });
        check("Recv of nothing", ncclRecv(data.data(), 0, ncclFloat32, 0, comm_, nullptr), {},
              [](std::size_t) { return 0; });
      }
    }
  }

  ncclComm_t comm_;
  int rank_, ranks_;
  std::size_t seed_ = 0;
  std::string failure_;
};

}  // namespace hosts_test
