// What a rank of two has to move in a collective where ranks cannot map one another's buffers and pass data through
// slots, but with slots of its own, which stay in its cache, and without a peer to wait for: so fast could a library
// with slots be if passing data from core to core cost nothing.
#pragma once

#include <algorithm>
#include <cstddef>

#include "memory_rate.h"
#include "workload.h"

namespace bench {

template <bool kStreamed>
inline void put(float* to, Lanes value) {
  if (kStreamed)
    stream(to, value);
  else
    store(to, value);
}

// Buffers are aligned to cache lines; `count` floats of the larger one, a multiple of 64.
template <bool kStreamed>
class OwnSlots {
 public:
  static void run(Kind kind, int rank, const float* send, float* recv, std::size_t count) {
    for_slots(kind == Kind::broadcast ? count : count / 2, [&](std::size_t at, std::size_t slot) {
      if (kind == Kind::all_reduce) all_reduce(send, recv, count / 2, at, slot);
      if (kind == Kind::all_gather)
        all_gather(send, recv + (rank == 0 ? 0 : count / 2), recv + (rank == 0 ? count / 2 : 0), at, slot);
      if (kind == Kind::broadcast) rank == 0 ? fill(send + at, slot) : empty(recv + at, arriving_, slot);
    });
    if (kStreamed) finish_stores();
  }

 private:
  static constexpr std::size_t kSlot = 16 * 1024;
  static constexpr std::size_t kVectors = 4;
  static constexpr std::size_t kStep = kVectors * kLanes;
  alignas(64) static inline float arriving_[kSlot];
  alignas(64) static inline float leaving_[kSlot];

  template <typename Function>
  static void for_slots(std::size_t count, Function&& move) {
    for (std::size_t at = 0; at < count; at += kSlot) move(at, std::min(kSlot, count - at));
  }

  static void fill(const float* from, std::size_t slot) {
    for (std::size_t i = 0; i < slot; i += kLanes) store(arriving_ + i, load(from + i));
  }
  static void empty(float* to, const float* from, std::size_t slot) {
    for (std::size_t i = 0; i < slot; i += kStep) {
      Lanes values[kVectors];
      for (std::size_t j = 0; j < kVectors; ++j) values[j] = load(from + i + kLanes * j);
      for (std::size_t j = 0; j < kVectors; ++j) put<kStreamed>(to + i + kLanes * j, values[j]);
    }
  }
  // Into the own result and the slot that leaves.
  static void put_both(float* result, std::size_t i, const Lanes (&values)[kVectors]) {
    for (std::size_t j = 0; j < kVectors; ++j) put<kStreamed>(result + i + kLanes * j, values[j]);
    for (std::size_t j = 0; j < kVectors; ++j) put<false>(leaving_ + i + kLanes * j, values[j]);
  }

  static void all_reduce(const float* send, float* recv, std::size_t half, std::size_t at, std::size_t slot) {
    fill(send + half + at, slot);
    for (std::size_t i = 0; i < slot; i += kStep) {
      Lanes sums[kVectors];
      for (std::size_t j = 0; j < kVectors; ++j)
        sums[j] = add(load(send + at + i + kLanes * j), load(arriving_ + i + kLanes * j));
      put_both(recv + at, i, sums);
    }
    empty(recv + half + at, leaving_, slot);
  }
  static void all_gather(const float* send, float* own, float* other, std::size_t at, std::size_t slot) {
    for (std::size_t i = 0; i < slot; i += kStep) {
      Lanes values[kVectors];
      for (std::size_t j = 0; j < kVectors; ++j) values[j] = load(send + at + i + kLanes * j);
      put_both(own + at, i, values);
    }
    empty(other + at, leaving_, slot);
  }
};

}  // namespace bench
