// What this machine's memory allows the processes of a run, all of them at once: loops that read and write each byte of
// large buffers exactly once. The bound that follows for AllReduce stands in bench/host/report.py.
#pragma once

#include <cstddef>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace bench {

#if defined(__SSE2__)
inline constexpr const char* kStores = "non-temporal";
using Four = __m128;
inline Four load(const float* from) { return _mm_load_ps(from); }
inline Four add(Four a, Four b) { return _mm_add_ps(a, b); }
inline void stream(float* to, Four value) { _mm_stream_ps(to, value); }
inline void finish_stores() { _mm_sfence(); }
#else
// Ordinary stores read what they overwrite: the rate comes out lower, and the bound with it.
inline constexpr const char* kStores = "ordinary";
struct Four {
  float x[4];
};
inline Four load(const float* from) { return {{from[0], from[1], from[2], from[3]}}; }
inline Four add(Four a, Four b) { return {{a.x[0] + b.x[0], a.x[1] + b.x[1], a.x[2] + b.x[2], a.x[3] + b.x[3]}}; }
inline void stream(float* to, Four value) {
  for (int i = 0; i < 4; ++i) to[i] = value.x[i];
}
inline void finish_stores() {}
#endif

// One loop over `count` floats of `from` and `to` (a multiple of 64; aligned to cache lines), and how many bytes of
// traffic with memory it needs at least for each of them.
struct MemoryLoop {
  const char* name;
  double bytes_per_float;
  void (*run)(const float* from, float* to, std::size_t count);
};

inline void copy_loop(const float* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16)
    for (std::size_t j = i; j < i + 16; j += 4) stream(to + j, load(from + j));
  finish_stores();
}

// What a rank of two must do of an AllReduce when all buffers are its own: read its half of both inputs, write that half
// of both results.
inline void add_to_both_loop(const float* from, float* to, std::size_t count) {
  const std::size_t half = count / 2;
  for (std::size_t i = 0; i < half; i += 16)
    for (std::size_t j = i; j < i + 16; j += 4) {
      const Four sum = add(load(from + j), load(from + half + j));
      stream(to + j, sum);
      stream(to + half + j, sum);
    }
  finish_stores();
}

inline void add_loop(const float* from, float* to, std::size_t count) {
  const std::size_t half = count / 2;
  for (std::size_t i = 0; i < half; i += 16)
    for (std::size_t j = i; j < i + 16; j += 4) stream(to + j, add(load(from + j), load(from + half + j)));
  finish_stores();
}

// The same by way of slots, as ranks must that cannot map one another's buffers, but slots of its own that nobody else
// touches and nobody waits for: what such ranks could reach if passing data on between cores cost nothing.
inline void add_through_own_slots_loop(const float* from, float* to, std::size_t count) {
  constexpr std::size_t kSlot = 16 * 1024;
  alignas(64) static float arriving[kSlot];
  alignas(64) static float leaving[kSlot];
  const std::size_t half = count / 2;
  for (std::size_t at = 0; at < half; at += kSlot) {
    const std::size_t slot = half - at < kSlot ? half - at : kSlot;
    __builtin_memcpy(arriving, from + half + at, slot * sizeof(float));
    for (std::size_t i = 0; i < slot; i += 16) {
      Four sums[4];
      for (std::size_t j = 0; j < 4; ++j) sums[j] = add(load(from + at + i + 4 * j), load(arriving + i + 4 * j));
      for (std::size_t j = 0; j < 4; ++j) stream(to + at + i + 4 * j, sums[j]);
      for (std::size_t j = 0; j < 4; ++j) __builtin_memcpy(leaving + i + 4 * j, &sums[j], sizeof(Four));
    }
    for (std::size_t i = 0; i < slot; i += 4) stream(to + half + at + i, load(leaving + i));
  }
  finish_stores();
}

// Bytes read and written are equal in the first two, as in AllReduce; the third reads two for one that it writes.
inline constexpr MemoryLoop kMemoryLoops[] = {
    {"copy", 8, copy_loop}, {"add to both", 8, add_to_both_loop}, {"add", 6, add_loop}};

}  // namespace bench
