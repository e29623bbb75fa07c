// The data mover of a block: all sources are read once, reduced in registers and written once to every destination, in
// vectors of 16 bytes where the addresses allow.
//
// All loads of a position come before its stores, and a position belongs to one thread, so a destination may be exactly
// a source.
#pragma once

#include "kernels/device/interpreter.h"
#include "kernels/gpu/element.h"

namespace sccl::device::gpu {

struct Work {
  const Source* sources;
  u32 source_count;
  u8* const* sinks;
  u32 sink_count;
  u64 elements;
  u32 divisor;
  u32 thread;
  u32 threads;
};

// The distance of all addresses from a multiple of 16 below; 16 when the addresses differ in it.
inline u32 common_misalignment(const Work& work) {
  const u64 first = reinterpret_cast<u64>(work.sources[0].data);
  u64 differences = 0;
  SCCL_ROLLED for (u32 i = 1; i < work.source_count; ++i) differences |=
      reinterpret_cast<u64>(work.sources[i].data) ^ first;
  SCCL_ROLLED for (u32 i = 0; i < work.sink_count; ++i) differences |= reinterpret_cast<u64>(work.sinks[i]) ^ first;
  return (differences & 15) != 0 ? 16 : static_cast<u32>(first & 15);
}

// Copies in the widest unit that divides all addresses.
template <class Unit, u32 kUnroll>
inline void copy_units(const Work& work, u64 begin, u64 end) {
  const Unit* const from = reinterpret_cast<const Unit*>(work.sources[0].data + begin);
  const u64 units = (end - begin) / sizeof(Unit);
  u64 at = work.thread;
  SCCL_ROLLED for (; at + (kUnroll - 1) * static_cast<u64>(work.threads) < units;
                   at += static_cast<u64>(kUnroll) * work.threads) {
    Unit values[kUnroll];
    SCCL_UNROLLED for (u32 u = 0; u < kUnroll; ++u) values[u] = from[at + u * static_cast<u64>(work.threads)];
    SCCL_ROLLED for (u32 i = 0; i < work.sink_count; ++i) {
      Unit* const to = reinterpret_cast<Unit*>(work.sinks[i] + begin);
      SCCL_UNROLLED for (u32 u = 0; u < kUnroll; ++u) to[at + u * static_cast<u64>(work.threads)] = values[u];
    }
  }
  SCCL_ROLLED for (; at < units; at += work.threads) {
    const Unit value = from[at];
    SCCL_ROLLED for (u32 i = 0; i < work.sink_count; ++i) reinterpret_cast<Unit*>(work.sinks[i] + begin)[at] = value;
  }
}

inline void copy_bytes(const Work& work, u64 bytes) {
  const u32 missing = common_misalignment(work);
  if (missing == 16) {
    u64 all = reinterpret_cast<u64>(work.sources[0].data);
    SCCL_ROLLED for (u32 i = 0; i < work.sink_count; ++i) all |= reinterpret_cast<u64>(work.sinks[i]);
    if ((all & 3) != 0) return copy_units<u8, 4>(work, 0, bytes);
    const u64 whole = bytes / 4 * 4;
    copy_units<u32, 4>(work, 0, whole);
    return copy_units<u8, 1>(work, whole, bytes);
  }
  const u64 head = missing == 0 ? 0 : 16 - missing < bytes ? 16 - missing : bytes;
  const u64 whole = head + (bytes - head) / 16 * 16;
  copy_units<u8, 1>(work, 0, head);
  copy_units<Vector, 4>(work, head, whole);
  copy_units<u8, 1>(work, whole, bytes);
}

// What happens to an element between load and store.
enum class Variant : u8 { plain, scaled, divided };

template <class E, ReduceKernel kKernel, Variant kVariant>
struct Arithmetic {
  using Memory = typename E::Memory;
  using Value = typename E::Value;
  static constexpr bool kDivides = kVariant == Variant::divided;
  static Value enter(Memory m, Memory factor) {
    if constexpr (kVariant == Variant::scaled)
      return E::widen(E::narrow(static_cast<Value>(E::widen(m) * E::widen(factor))));
    return E::widen(m);
  }
  static Value combine(Value a, Value b) {
    if constexpr (kKernel == ReduceKernel::sum) return static_cast<Value>(a + b);
    return static_cast<Value>(a * b);
  }
  static Memory leave(Value v, u32 divisor) {
    if constexpr (kVariant == Variant::divided) return E::divided(v, divisor);
    return E::narrow(v);
  }
};

template <class E, ReduceKernel kKernel>
struct Extremum {
  using Memory = typename E::Memory;
  using Value = Memory;
  static constexpr bool kDivides = false;
  static Value enter(Memory m, Memory) { return Order<E, kKernel>::key(m); }
  static Value combine(Value a, Value b) { return (kKernel == ReduceKernel::max) == (a > b) ? a : b; }
  static Memory leave(Value v, u32) { return Order<E, kKernel>::element(v); }
};

template <class Memory>
inline Memory lane_of(const Vector& v, u32 i) {
  if constexpr (sizeof(Memory) == 8)
    return static_cast<Memory>(v.words[2 * i]) | static_cast<Memory>(v.words[2 * i + 1]) << 32;
  constexpr u32 kPerWord = sizeof(Memory) < 4 ? 4 / sizeof(Memory) : 1;
  return static_cast<Memory>(v.words[i / kPerWord] >> (i % kPerWord * 8 * (sizeof(Memory) % 4)));
}

// `v` must hold zeros in this lane.
template <class Memory>
inline void set_lane(Vector& v, u32 i, Memory m) {
  if constexpr (sizeof(Memory) == 8) {
    v.words[2 * i] = static_cast<u32>(m);
    v.words[2 * i + 1] = static_cast<u32>(m >> 32);
  } else {
    constexpr u32 kPerWord = 4 / sizeof(Memory);
    v.words[i / kPerWord] |= static_cast<u32>(m) << (i % kPerWord * 8 * (sizeof(Memory) % 4));
  }
}

template <class R, u32 kVectors>
struct Accumulated {
  using Memory = typename R::Memory;
  static constexpr u32 kLanes = 16 / sizeof(Memory);

  static void load(Vector (&to)[kVectors], const Work& work, u32 source, u64 begin, u64 first_vector) {
    const Vector* const from = reinterpret_cast<const Vector*>(work.sources[source].data + begin) + first_vector;
    SCCL_UNROLLED for (u32 u = 0; u < kVectors; ++u) to[u] = from[u * work.threads];
  }
  void begin_with(const Vector (&loaded)[kVectors], u64 scale_bits) {
    const Memory factor = static_cast<Memory>(scale_bits);
    SCCL_UNROLLED for (u32 u = 0; u < kVectors; ++u) {
      SCCL_UNROLLED for (u32 i = 0; i < kLanes; ++i) values[u][i] = R::enter(lane_of<Memory>(loaded[u], i), factor);
    }
  }
  void add(const Vector (&loaded)[kVectors], u64 scale_bits) {
    const Memory factor = static_cast<Memory>(scale_bits);
    SCCL_UNROLLED for (u32 u = 0; u < kVectors; ++u) {
      SCCL_UNROLLED for (u32 i = 0; i < kLanes; ++i) values[u][i] =
          R::combine(values[u][i], R::enter(lane_of<Memory>(loaded[u], i), factor));
    }
  }

  typename R::Value values[kVectors][kLanes];
};

// Two sources are loaded at a time, so that the loads of one need not wait for those of the other.
template <class R, u32 kVectors>
inline void reduce_vectors(const Work& work, u64 begin, u64 first_vector) {
  using Memory = typename R::Memory;
  using Sum = Accumulated<R, kVectors>;
  Sum sum;
  Vector first[kVectors];
  Vector second[kVectors];
  const bool several = work.source_count > 1;
  Sum::load(first, work, 0, begin, first_vector);
  if (several) Sum::load(second, work, 1, begin, first_vector);
  sum.begin_with(first, work.sources[0].scale_bits);
  if (several) sum.add(second, work.sources[1].scale_bits);
  u32 s = 2;
  SCCL_ROLLED for (; s + 1 < work.source_count; s += 2) {
    Sum::load(first, work, s, begin, first_vector);
    Sum::load(second, work, s + 1, begin, first_vector);
    sum.add(first, work.sources[s].scale_bits);
    sum.add(second, work.sources[s + 1].scale_bits);
  }
  if (s < work.source_count) {
    Sum::load(first, work, s, begin, first_vector);
    sum.add(first, work.sources[s].scale_bits);
  }
  SCCL_UNROLLED for (u32 u = 0; u < kVectors; ++u) {
    Vector result{};
    SCCL_UNROLLED for (u32 i = 0; i < Sum::kLanes; ++i)
        set_lane<Memory>(result, i, R::leave(sum.values[u][i], work.divisor));
    SCCL_ROLLED for (u32 i = 0; i < work.sink_count;
                     ++i)(reinterpret_cast<Vector*>(work.sinks[i] + begin) + first_vector)[u * work.threads] = result;
  }
}

// Element by element: the elements outside of whole vectors.
template <class R>
inline void reduce_elements(const Work& work, u64 begin, u64 end) {
  using Memory = typename R::Memory;
  SCCL_ROLLED for (u64 at = begin + work.thread; at < end; at += work.threads) {
    const auto enter = [&](u32 s) {
      return R::enter(reinterpret_cast<const Memory*>(work.sources[s].data)[at],
                      static_cast<Memory>(work.sources[s].scale_bits));
    };
    auto value = enter(0);
    SCCL_ROLLED for (u32 s = 1; s < work.source_count; ++s) value = R::combine(value, enter(s));
    const Memory result = R::leave(value, work.divisor);
    SCCL_ROLLED for (u32 i = 0; i < work.sink_count; ++i) reinterpret_cast<Memory*>(work.sinks[i])[at] = result;
  }
}

template <class R>
SCCL_CALLED inline void reduce(const Work& work) {
  using Memory = typename R::Memory;
  constexpr u32 kLanes = 16 / sizeof(Memory);
  constexpr u32 kVectors = R::kDivides   ? 1
                           : kLanes == 2 ? 3
                                         : 16 / kLanes;  // this many stay in registers, in all kernels
  const u32 missing = common_misalignment(work);
  if (missing == 16 || missing % sizeof(Memory) != 0) return reduce_elements<R>(work, 0, work.elements);
  const u64 head_wanted = missing == 0 ? 0 : (16 - missing) / sizeof(Memory);
  const u64 head = head_wanted < work.elements ? head_wanted : work.elements;
  const u64 vectors = (work.elements - head) / kLanes;
  const u64 begin = head * sizeof(Memory);
  reduce_elements<R>(work, 0, head);
  u64 at = work.thread;
  SCCL_ROLLED for (; at + (kVectors - 1) * static_cast<u64>(work.threads) < vectors;
                   at += static_cast<u64>(kVectors) * work.threads) reduce_vectors<R, kVectors>(work, begin, at);
  SCCL_ROLLED for (; at < vectors; at += work.threads) reduce_vectors<R, 1>(work, begin, at);
  reduce_elements<R>(work, head + vectors * kLanes, work.elements);
}

// Eight bytes of elements, combined in registers in the order of the sources (straight_operation.h).
template <class R>
class UnitSum {
 public:
  void begin(u64 unit) {
    SCCL_UNROLLED for (u32 i = 0; i < kLanes; ++i) values_[i] = R::enter(element(unit, i), Memory{});
  }
  void add(u64 unit) {
    SCCL_UNROLLED for (u32 i = 0; i < kLanes; ++i) values_[i] =
        R::combine(values_[i], R::enter(element(unit, i), Memory{}));
  }
  u64 result() const {
    u64 unit = 0;
    SCCL_UNROLLED for (u32 i = 0; i < kLanes; ++i) unit |= static_cast<u64>(R::leave(values_[i], 1)) << (i * kBits);
    return unit;
  }

 private:
  using Memory = typename R::Memory;
  static constexpr u32 kLanes = 8 / sizeof(Memory);
  static constexpr u32 kBits = 8 * sizeof(Memory);
  static Memory element(u64 unit, u32 i) { return static_cast<Memory>(unit >> (i * kBits)); }

  typename R::Value values_[kLanes];
};

// For kernels that only copy, or learn their type when they run.
struct FirstUnit {
  void begin(u64 unit) { unit_ = unit; }
  void add(u64) {}
  u64 result() const { return unit_; }
  u64 unit_;
};

// What a call computes; kernels of one type and operation know it at compile time.
struct Operation {
  DataType type;
  ReduceKernel kernel;
  u32 bytes;  // of an element
};

// The mover for which a kernel is instantiated. kByUnits: whether Unit combines, or keeps the first unit only.
struct Copying {
  using Unit = FirstUnit;
  static constexpr bool kByUnits = false;
  static void reduce(const Work&, bool, Operation) {}
};

template <class E, ReduceKernel kKernel>
struct Unscaled {
  using Type = Arithmetic<E, kKernel, Variant::plain>;
};
template <class E>
struct Unscaled<E, ReduceKernel::max> {
  using Type = Extremum<E, ReduceKernel::max>;
};
template <class E>
struct Unscaled<E, ReduceKernel::min> {
  using Type = Extremum<E, ReduceKernel::min>;
};

template <DataType kType, ReduceKernel kKernel>
struct Reducing {
  using E = Element<kType>;
  using Unit = UnitSum<typename Unscaled<E, kKernel>::Type>;
  static constexpr bool kByUnits = true;
  static void reduce(const Work& work, [[maybe_unused]] bool scaled, Operation) {
    if constexpr (kKernel == ReduceKernel::max || kKernel == ReduceKernel::min) {
      gpu::reduce<Extremum<E, kKernel>>(work);
    } else {
      // Factors and divisors belong to averages and pre-multiplied sums.
      if constexpr (kKernel == ReduceKernel::sum) {
        if (scaled) return gpu::reduce<Arithmetic<E, kKernel, Variant::scaled>>(work);
        if constexpr (!E::kFloating)
          if (work.divisor > 1) return gpu::reduce<Arithmetic<E, kKernel, Variant::divided>>(work);
      }
      gpu::reduce<Arithmetic<E, kKernel, Variant::plain>>(work);
    }
  }
};

template <class Mover>
inline void move_block(const Source* sources, u32 source_count, u8* const* sinks, u32 sink_count, u64 elements,
                       u32 divisor, Operation operation, bool scaled) {
  if (sink_count == 0 || elements == 0) return;
  const Work work{sources,
                  source_count,
                  sinks,
                  sink_count,
                  elements,
                  divisor,
                  unhoisted(thread_index()),
                  unhoisted(thread_count())};
  if (source_count == 1 && !scaled && divisor <= 1) return copy_bytes(work, elements * operation.bytes);
  Mover::reduce(work, scaled, operation);
}

}  // namespace sccl::device::gpu
