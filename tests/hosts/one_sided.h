// One-sided calls of a rank: a window, puts into it, and their checks. Element `at` of a put with seed s is s + at
// modulo 101.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_shim/nccl.h"

namespace hosts_test {

class OneSided {
 public:
  OneSided(ncclComm_t comm, int rank, int ranks) : comm_(comm), rank_(rank), ranks_(ranks) {}

  // "window ELEMENTS"
  std::string make_window(std::istringstream& words) {
    std::size_t count = 0;
    words >> count;
    memory_.assign(count, -1);
    if (const std::string made = settled(
            ncclCommWindowRegister(comm_, memory_.data(), count * sizeof(float), &window_, NCCL_WIN_COLL_SYMMETRIC));
        made != "ok")
      return made;
    return window_ == nullptr ? "ok none" : "ok";
  }
  std::string drop_window() { return outcome(ncclCommWindowDeregister(comm_, std::exchange(window_, nullptr))); }

  // "put PEER ELEMENTS OFFSET SEED": the offset in elements, signal 0.
  std::string put(std::istringstream& words) {
    return put(words, [] {});
  }
  // The same, while another thread aborts the communicator. That thread starts when the data are ready: to make them
  // may take longer than it waits.
  std::string put_and_abort(std::istringstream& words) {
    std::thread other;
    const std::string how = put(words, [&] {
      other = std::thread([comm = comm_] {
        ::usleep(500000);
        ncclCommAbort(comm);
      });
    });
    other.join();
    return how;
  }
  // "signal PEER"
  std::string signal(std::istringstream& words) {
    int peer = 0;
    words >> peer;
    return outcome(ncclSignal(peer, 0, 0, 0, comm_, nullptr));
  }
  // "await PEER SIGNALS"
  std::string await(std::istringstream& words) {
    ncclWaitSignalDesc_t wait{};
    words >> wait.peer >> wait.opCnt;
    return outcome(ncclWaitSignal(1, &wait, comm_, nullptr));
  }
  // "check ELEMENTS OFFSET SEED"
  std::string check(std::istringstream& words) const {
    std::size_t count = 0;
    std::size_t offset = 0;
    int seed = 0;
    words >> count >> offset >> seed;
    const std::vector<float> expected = pattern(count, seed);
    for (std::size_t at = 0; at < count; ++at)
      if (memory_[offset + at] != expected[at])
        return "wrong data at element " + std::to_string(at) + ": " + std::to_string(memory_[offset + at]);
    return "ok";
  }

  // "exchange ELEMENTS ROUNDS": everyone puts into everyone's window, its own included, in one group with the waits,
  // and beside a collective; then all tell all that they have read. For communicators that do not block, too.
  std::string exchange(std::istringstream& words) {
    std::size_t count = 0;
    int rounds = 0;
    words >> count >> rounds;
    for (int round = 0; round < rounds; ++round)
      if (const std::string how = exchange_once(count, round); how != "ok") return how;
    return "ok";
  }

 private:
  template <typename Function>
  std::string put(std::istringstream& words, Function&& with_data) {
    int peer = 0;
    std::size_t count = 0;
    std::size_t offset = 0;
    int seed = 0;
    words >> peer >> count >> offset >> seed;
    const std::vector<float> data = pattern(count, seed);
    with_data();
    return outcome(
        ncclPutSignal(data.data(), count, ncclFloat32, peer, window_, offset * sizeof(float), 0, 0, 0, comm_, nullptr));
  }
  static std::string outcome(ncclResult_t result) {
    if (result == ncclSuccess) return "ok";
    std::string text = ncclGetLastError(nullptr);
    for (char& letter : text)
      if (letter == '\n') letter = ' ';
    return "error " + std::to_string(result) + " " + text;
  }

  std::string end_of_group() { return settled(ncclGroupEnd()); }

  std::string settled(ncclResult_t result) {
    while (result == ncclInProgress) {
      ::usleep(200);
      if (const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result); asked != ncclSuccess) return outcome(asked);
    }
    return outcome(result);
  }

  std::string exchange_once(std::size_t count, int round) {
    std::vector<ncclWaitSignalDesc_t> from_all;
    std::vector<std::vector<float>> data;
    std::vector<float> sum(1000, 1);
    for (int peer = 0; peer < ranks_; ++peer) {
      data.push_back(pattern(count, rank_ * 7 + peer + round));
      from_all.push_back({1, peer, 3, 1});
    }
    ncclGroupStart();
    ncclWaitSignal(ranks_, from_all.data(), comm_, nullptr);
    for (int peer = 0; peer < ranks_; ++peer)
      ncclPutSignal(data[static_cast<std::size_t>(peer)].data(), count, ncclFloat32, peer, window_,
                    static_cast<std::size_t>(rank_) * count * sizeof(float), 3, 1, 0, comm_, nullptr);
    ncclAllReduce(sum.data(), sum.data(), sum.size(), ncclFloat32, ncclSum, comm_, nullptr);
    if (const std::string how = end_of_group(); how != "ok") return how;
    if (sum.back() != static_cast<float>(ranks_)) return "a wrong sum";
    for (int peer = 0; peer < ranks_; ++peer) {
      std::istringstream part(std::to_string(count) + " " + std::to_string(static_cast<std::size_t>(peer) * count) +
                              " " + std::to_string(peer * 7 + rank_ + round));
      if (const std::string how = check(part); how != "ok") return "from rank " + std::to_string(peer) + ": " + how;
    }
    ncclGroupStart();
    for (ncclWaitSignalDesc_t& one : from_all) {
      one.sigIdx = 5;
      ncclSignal(one.peer, 5, 1, 0, comm_, nullptr);
    }
    ncclWaitSignal(ranks_, from_all.data(), comm_, nullptr);
    return end_of_group();
  }

  static std::vector<float> pattern(std::size_t count, int seed) {
    std::vector<float> data(count);
    for (std::size_t at = 0; at < count; ++at) data[at] = static_cast<float>(seed) + static_cast<float>(at % 101);
    return data;
  }

  ncclComm_t comm_;
  int rank_, ranks_;
  std::vector<float> memory_;
  ncclWindow_t window_ = nullptr;
};

}  // namespace hosts_test
