#include "moments.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

namespace faults_test {
namespace {

// A call that returned, with whatever result, has given the buffer back: nobody writes into it any more.
bool is_left_alone(std::vector<float>& data) {
  constexpr float kMark = -7;
  std::fill(data.begin(), data.end(), kMark);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return std::all_of(data.begin(), data.end(), [&](float value) { return value == kMark; });
}

// What rank r contributes is r + 1, so that a lost or doubled contribution shows.
ncclResult_t summed(int rank, int ranks, ncclComm_t comm, std::size_t count, std::vector<float>& data) {
  data.assign(count, static_cast<float>(rank + 1));
  const ncclResult_t result = ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr);
  if (result != ncclSuccess) return is_left_alone(data) ? result : ncclInternalError;
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  return std::all_of(data.begin(), data.end(), [&](float value) { return value == sum; }) ? ncclSuccess
                                                                                          : ncclInternalError;
}

ncclResult_t group(int rank, int ranks, ncclComm_t comm, std::size_t shift) {
  const std::size_t count = 3000;
  std::vector<float> first(count + shift, 1.0f);
  std::vector<float> second(static_cast<std::size_t>(ranks) * count, 2.0f);
  std::vector<float> sent(static_cast<std::size_t>(ranks) * count, static_cast<float>(rank));
  std::vector<float> received(static_cast<std::size_t>(ranks) * count, -1.0f);
  ncclGroupStart();
  ncclAllReduce(first.data(), first.data(), count + shift, ncclFloat32, ncclSum, comm, nullptr);
  ncclAllGather(sent.data(), second.data(), count, ncclFloat32, comm, nullptr);
  for (int peer = 0; peer < ranks; ++peer) {
    const std::size_t place = static_cast<std::size_t>(peer) * count;
    ncclSend(sent.data() + place, count, ncclFloat32, peer, comm, nullptr);
    ncclRecv(received.data() + place, count, ncclFloat32, peer, comm, nullptr);
  }
  if (const ncclResult_t result = ncclGroupEnd(); result != ncclSuccess) return result;
  for (int peer = 0; peer < ranks; ++peer)
    if (received[static_cast<std::size_t>(peer) * count] != static_cast<float>(peer)) return ncclInternalError;
  return first[0] == static_cast<float>(ranks) ? ncclSuccess : ncclInternalError;
}

// A child that made its call leaves the parent as it was.
ncclResult_t end(ncclComm_t child, ncclResult_t called) {
  const ncclResult_t ended = called == ncclSuccess ? ncclCommDestroy(child) : ncclCommAbort(child);
  return called == ncclSuccess ? ended : called;
}

ncclResult_t split(int rank, int, ncclComm_t comm, std::size_t shift) {
  float value = 1;
  // Whoever mismatches makes another call than the others.
  if (shift != 0) return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
  ncclComm_t child = nullptr;
  const ncclResult_t result = ncclCommSplit(comm, rank % 2, rank, &child, nullptr);
  if (child == nullptr) return result;
  return end(child, ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, child, nullptr));
}

ncclResult_t finalize(int rank, int, ncclComm_t comm, std::size_t) {
  ncclComm_t child = nullptr;
  const ncclResult_t result = ncclCommSplit(comm, 0, rank, &child, nullptr);
  if (child == nullptr) return result;
  float value = 1;
  const ncclResult_t called = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, child, nullptr);
  return end(child, called == ncclSuccess ? ncclCommFinalize(child) : called);
}

ncclResult_t settled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm, &state); asked != ncclSuccess) return asked;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return state;
}

ncclResult_t without_blocking(int rank, int ranks, ncclComm_t comm, std::size_t shift) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t child = nullptr;
  ncclResult_t result = ncclCommSplit(comm, 0, rank, &child, &config);
  if (child == nullptr) return result;
  result = settled(child);
  const std::size_t count = 50000 + shift;
  std::vector<float> data(count, 1.0f);
  if (result == ncclSuccess) {
    result = ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, child, nullptr);
    if (result == ncclInProgress) result = settled(child);
    if (result == ncclSuccess && data[count - 1] != static_cast<float>(ranks)) result = ncclInternalError;
  }
  if (result != ncclSuccess) {
    ncclCommAbort(child);
    return result;
  }
  return ncclCommDestroy(child);
}

}  // namespace

Moment all_reduces(const char* name, std::size_t elements, int rounds) {
  return {name,
          false,
          rounds,
          [elements](int rank, int ranks, ncclComm_t comm, std::size_t shift) {
            static std::vector<float> data;
            return summed(rank, ranks, comm, elements + shift, data);
          },
          {}};
}

Moment init_moment() {
  Moment moment = all_reduces("init", 16, 3000);
  moment.makes_communicator = true;
  return moment;
}
Moment small_calls() { return all_reduces("small calls", 16, 5000); }
Moment slot_calls() { return all_reduces("calls through slots", 20000, 3000); }
Moment large_calls() {
  Moment moment = all_reduces("large calls", 2000000, 40);
  moment.environment = {{"SCCL_PROTO", "direct"}};
  return moment;
}
Moment bulk_calls() { return all_reduces("bulk calls", 1000000, 80); }
namespace {

Moment arrival_calls(const char* name, const char* form, std::size_t elements, int rounds) {
  Moment moment = all_reduces(name, elements, rounds);
  moment.environment = {{"SCCL_ARRIVAL", form}};
  return moment;
}

}  // namespace

Moment late_calls(const char* form) {
  Moment moment = arrival_calls("calls with late ranks", form, 30000, 400);
  moment.call = [](int rank, int ranks, ncclComm_t comm, std::size_t shift) {
    static std::vector<float> data;
    static std::mt19937 random(static_cast<unsigned>(rank));
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    return summed(rank, ranks, comm, 30000 + shift, data);
  };
  return moment;
}

Moment eager_calls() { return arrival_calls("eager calls", "eager", 500000, 160); }
Moment led_calls() { return arrival_calls("led calls", "leader", 20000, 2000); }
Moment chained_calls() { return arrival_calls("chained calls", "chain", 2000000, 40); }
Moment grouped_calls() { return {"groups", false, 400, group, {}}; }
Moment splits() { return {"splits", false, 200, split, {}}; }
Moment finalizes() { return {"finalizes", false, 200, finalize, {}}; }
Moment non_blocking_calls() { return {"non-blocking calls", false, 200, without_blocking, {}}; }

}  // namespace faults_test
