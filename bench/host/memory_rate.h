// What this machine's memory allows the processes of a run, all of them at once: loops that read and write each byte of
// large buffers exactly once. The bound that follows for AllReduce stands in bench/host/report.py.
#pragma once

#include <cstddef>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace bench {

#if defined(__AVX__)
inline constexpr const char* kStores = "non-temporal";
using Lanes = __m256;
inline Lanes load(const float* from) { return _mm256_load_ps(from); }
inline Lanes add(Lanes a, Lanes b) { return _mm256_add_ps(a, b); }
inline void stream(float* to, Lanes value) { _mm256_stream_ps(to, value); }
inline void store(float* to, Lanes value) { _mm256_store_ps(to, value); }
inline void finish_stores() { _mm_sfence(); }
#elif defined(__SSE2__)
inline constexpr const char* kStores = "non-temporal";
using Lanes = __m128;
inline Lanes load(const float* from) { return _mm_load_ps(from); }
inline Lanes add(Lanes a, Lanes b) { return _mm_add_ps(a, b); }
inline void stream(float* to, Lanes value) { _mm_stream_ps(to, value); }
inline void store(float* to, Lanes value) { _mm_store_ps(to, value); }
inline void finish_stores() { _mm_sfence(); }
#else
// Ordinary stores read what they overwrite: the rate comes out lower, and the bound with it.
inline constexpr const char* kStores = "ordinary";
struct Lanes {
  float x[4];
};
inline Lanes load(const float* from) { return {{from[0], from[1], from[2], from[3]}}; }
inline Lanes add(Lanes a, Lanes b) { return {{a.x[0] + b.x[0], a.x[1] + b.x[1], a.x[2] + b.x[2], a.x[3] + b.x[3]}}; }
inline void store(float* to, Lanes value) {
  for (int i = 0; i < 4; ++i) to[i] = value.x[i];
}
inline void stream(float* to, Lanes value) { store(to, value); }
inline void finish_stores() {}
#endif
inline constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(float);

// One loop over `count` floats of `from` and `to` (a multiple of 64; aligned to cache lines), and how many bytes of
// traffic with memory it needs at least for each of them.
struct MemoryLoop {
  const char* name;
  double bytes_per_float;
  void (*run)(const float* from, float* to, std::size_t count);
};

inline void copy_loop(const float* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16)
    for (std::size_t j = i; j < i + 16; j += kLanes) stream(to + j, load(from + j));
  finish_stores();
}

// What a rank of two must do of an AllReduce when all buffers are its own: read its half of both inputs, write that
// half of both results.
inline void add_to_both_loop(const float* from, float* to, std::size_t count) {
  const std::size_t half = count / 2;
  for (std::size_t i = 0; i < half; i += 16)
    for (std::size_t j = i; j < i + 16; j += kLanes) {
      const Lanes sum = add(load(from + j), load(from + half + j));
      stream(to + j, sum);
      stream(to + half + j, sum);
    }
  finish_stores();
}

inline void add_loop(const float* from, float* to, std::size_t count) {
  const std::size_t half = count / 2;
  for (std::size_t i = 0; i < half; i += 16)
    for (std::size_t j = i; j < i + 16; j += kLanes) stream(to + j, add(load(from + j), load(from + half + j)));
  finish_stores();
}

// Bytes read and written are equal in the first two, as in AllReduce; the third reads two for one that it writes.
inline constexpr MemoryLoop kMemoryLoops[] = {
    {"copy", 8, copy_loop}, {"add to both", 8, add_to_both_loop}, {"add", 6, add_loop}};

}  // namespace bench
