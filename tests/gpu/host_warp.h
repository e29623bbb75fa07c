// A warp that threads of the host play: votes, and lines of 128 bytes that are loaded and stored as a whole. As strict
// as a device may be: the eight threads of a line must come together, with neighbouring addresses of one aligned line;
// threads are late at random; and what no device promises does not hold, such as an order among lines.
//
// A line is whole for its readers because one thread moves it: payload first and flag last on the way in, flag first
// and payload last on the way out. Processes that share memory need nothing else.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "kernels/device/lines.h"

namespace sccl::device::gpu {

inline constexpr u32 kMostHostWarpLanes = 16;
inline constexpr u32 kLineThreads = 8;

// Links that cut lines, for tests that must find it: the flag goes ahead of the payload by so many microseconds. 0: a
// sound link.
inline std::atomic<int> cut_lines_us{0};
// Every so many moves of a line come late, by up to as many microseconds. 0: none.
inline std::atomic<u32> late_lines_every{0};
inline std::atomic<u32> late_lines_us{50};

struct HostWarp {
  explicit HostWarp(u32 lanes) : barrier(static_cast<std::ptrdiff_t>(lanes)) {}

  struct Offer {
    u64* at = nullptr;
    LinePart part{{0, 0}};
    bool active = false;
    bool vote = false;
  };

  std::barrier<> barrier;
  // By turn: who is ahead writes into the next one's, and nobody is ahead by two.
  std::array<std::array<Offer, kMostHostWarpLanes>, 2> offers{};
};

// Of a thread of the host.
struct HostWarpPlace {
  HostWarp* warp = nullptr;
  u32 lanes = 0;
  u32 lane = 0;
  u32 turn = 0;
  std::minstd_rand random{1};
};
inline thread_local HostWarpPlace warp_place;

inline void wrong_use(const char* what) {
  std::fprintf(stderr, "a played warp: %s\n", what);
  std::abort();
}

inline u32 warp_lanes() {
  if (warp_place.warp == nullptr) wrong_use("lines in a block that has no whole warps of 8 or 16 threads");
  return warp_place.lanes;
}

inline std::array<HostWarp::Offer, kMostHostWarpLanes>& meet(const HostWarp::Offer& mine) {
  HostWarpPlace& place = warp_place;
  const u32 every = late_lines_every.load(std::memory_order_relaxed);
  if (every != 0 && place.random() % every == 0)
    ::usleep(static_cast<useconds_t>(place.random() % late_lines_us.load(std::memory_order_relaxed)));
  auto& offers = place.warp->offers[place.turn];
  place.turn ^= 1;
  offers[place.lane] = mine;
  place.warp->barrier.arrive_and_wait();
  return offers;
}

inline bool warp_all(bool mine) {
  const auto& offers = meet({nullptr, {}, false, mine});
  for (u32 lane = 0; lane < warp_place.lanes; ++lane)
    if (!offers[lane].vote) return false;
  return true;
}

// The offers of the line to which this thread belongs; checked.
inline HostWarp::Offer* line_of(std::array<HostWarp::Offer, kMostHostWarpLanes>& offers) {
  HostWarp::Offer* const line = &offers[warp_place.lane / kLineThreads * kLineThreads];
  for (u32 i = 0; i < kLineThreads; ++i) {
    if (line[i].active != line[0].active) wrong_use("only some of a line's threads take part");
    if (line[i].active && line[i].at != line[0].at + 2 * i) wrong_use("the threads of a line are not neighbours");
  }
  if (line[0].active && reinterpret_cast<u64>(line[0].at) % kLineBytes != 0) wrong_use("a line is not aligned");
  return line;
}

inline bool moves_line() { return warp_place.lane % kLineThreads == 0; }

inline LinePart load_line_part(const u64* from, bool active) {
  auto& offers = meet({const_cast<u64*>(from), {}, active, false});
  HostWarp::Offer* const line = line_of(offers);
  if (moves_line() && line[0].active) {
    u64* const at = line[0].at;
    line[kLineThreads - 1].part.words[1] = __atomic_load_n(at + 2 * kLineThreads - 1, __ATOMIC_ACQUIRE);
    for (u32 word = 0; word + 1 < 2 * kLineThreads; ++word)
      line[word / 2].part.words[word % 2] = __atomic_load_n(at + word, __ATOMIC_RELAXED);
  }
  warp_place.warp->barrier.arrive_and_wait();
  return offers[warp_place.lane].part;
}

inline void store_line_part(u64* to, const LinePart& part, bool active) {
  auto& offers = meet({to, part, active, false});
  const HostWarp::Offer* const line = line_of(offers);
  if (!moves_line() || !line[0].active) return;
  u64* const at = line[0].at;
  const u64 flag = line[kLineThreads - 1].part.words[1];
  const int cut_us = cut_lines_us.load(std::memory_order_relaxed);
  if (cut_us != 0) {
    __atomic_store_n(at + 2 * kLineThreads - 1, flag, __ATOMIC_RELEASE);
    ::usleep(static_cast<useconds_t>(cut_us));
  }
  for (u32 word = 0; word + 1 < 2 * kLineThreads; ++word)
    __atomic_store_n(at + word, line[word / 2].part.words[word % 2], __ATOMIC_RELAXED);
  __atomic_store_n(at + 2 * kLineThreads - 1, flag, __ATOMIC_RELEASE);
}

}  // namespace sccl::device::gpu
