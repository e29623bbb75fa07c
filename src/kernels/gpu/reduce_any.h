// The mover of a kernel that serves every type and operation; it learns both when it runs. Such a kernel is loaded
// before the calls are known (kernels/instantiate/device_kernels.h).
//
// Its results are bit by bit those of the kernels of one type, because it uses their arithmetic of elements: ranks of
// one call may run either. It moves one element at a time, in 64 bits whatever the type, so that it compiles as fast as
// they do. The price is speed: the other kernels move vectors of 16 bytes.
#pragma once

#include "kernels/gpu/reduce_copy.h"

namespace sccl::device::gpu {

// How two values combine. The values of an extremum are keys (Order), whatever the type.
enum class Values : u8 { integers, floats, doubles, largest, smallest };

inline Values values_of(Operation operation) {
  if (operation.kernel == ReduceKernel::max) return Values::largest;
  if (operation.kernel == ReduceKernel::min) return Values::smallest;
  switch (operation.type) {
    case DataType::float64:
      return Values::doubles;
    case DataType::float16:
    case DataType::float32:
    case DataType::bfloat16:
    case DataType::float8e4m3:
    case DataType::float8e5m2:
      return Values::floats;
    default:
      return Values::integers;
  }
}

inline u64 bits_of_value(float value) { return bits_of(value); }
inline u64 bits_of_value(double value) { return same_bits<u64>(value); }
inline u64 bits_of_value(u32 value) { return value; }
inline u64 bits_of_value(u64 value) { return value; }
inline void take_bits(u64 bits, float& value) { value = float_of(static_cast<u32>(bits)); }
inline void take_bits(u64 bits, double& value) { value = same_bits<double>(bits); }
inline void take_bits(u64 bits, u32& value) { value = static_cast<u32>(bits); }
inline void take_bits(u64 bits, u64& value) { value = bits; }

// Converts elements for a computation and back.
template <class E>
struct AnyElement {
  using Memory = typename E::Memory;

  static u64 enter(u64 loaded, u64 factor, ReduceKernel kernel, bool scaled) {
    const Memory m = static_cast<Memory>(loaded);
    if (kernel == ReduceKernel::max) return Order<E, ReduceKernel::max>::key(m);
    if (kernel == ReduceKernel::min) return Order<E, ReduceKernel::min>::key(m);
    if (!scaled) return bits_of_value(E::widen(m));
    return bits_of_value(Arithmetic<E, ReduceKernel::sum, Variant::scaled>::enter(m, static_cast<Memory>(factor)));
  }
  static u64 leave(u64 bits, u32 divisor, ReduceKernel kernel) {
    if (kernel == ReduceKernel::max) return Order<E, ReduceKernel::max>::element(static_cast<Memory>(bits));
    if (kernel == ReduceKernel::min) return Order<E, ReduceKernel::min>::element(static_cast<Memory>(bits));
    typename E::Value value;
    take_bits(bits, value);
    if constexpr (!E::kFloating)
      if (divisor > 1) return E::divided(value, divisor);
    return E::narrow(value);
  }
};

template <class Visitor>
inline u64 visit_element(DataType type, Visitor&& visitor) {
  switch (type) {
    case DataType::int8:
      return visitor(AnyElement<Element<DataType::int8>>{});
    case DataType::uint8:
      return visitor(AnyElement<Element<DataType::uint8>>{});
    case DataType::int32:
      return visitor(AnyElement<Element<DataType::int32>>{});
    case DataType::uint32:
      return visitor(AnyElement<Element<DataType::uint32>>{});
    case DataType::int64:
      return visitor(AnyElement<Element<DataType::int64>>{});
    case DataType::uint64:
      return visitor(AnyElement<Element<DataType::uint64>>{});
    case DataType::float16:
      return visitor(AnyElement<Element<DataType::float16>>{});
    case DataType::float32:
      return visitor(AnyElement<Element<DataType::float32>>{});
    case DataType::float64:
      return visitor(AnyElement<Element<DataType::float64>>{});
    case DataType::bfloat16:
      return visitor(AnyElement<Element<DataType::bfloat16>>{});
    case DataType::float8e4m3:
      return visitor(AnyElement<Element<DataType::float8e4m3>>{});
    case DataType::float8e5m2:
      return visitor(AnyElement<Element<DataType::float8e5m2>>{});
  }
  return 0;
}

SCCL_CALLED inline u64 enter_any(Operation operation, u64 loaded, u64 factor, bool scaled) {
  return visit_element(operation.type,
                       [&](auto element) { return element.enter(loaded, factor, operation.kernel, scaled); });
}
SCCL_CALLED inline u64 leave_any(Operation operation, u64 bits, u32 divisor) {
  return visit_element(operation.type, [&](auto element) { return element.leave(bits, divisor, operation.kernel); });
}

inline u64 combine_any(Values values, bool multiplies, u64 a, u64 b) {
  switch (values) {
    case Values::integers:
      return multiplies ? a * b : a + b;
    case Values::floats: {
      const float x = float_of(static_cast<u32>(a)), y = float_of(static_cast<u32>(b));
      return bits_of(multiplies ? x * y : x + y);
    }
    case Values::doubles: {
      const double x = same_bits<double>(a), y = same_bits<double>(b);
      return same_bits<u64>(multiplies ? x * y : x + y);
    }
    case Values::largest:
      return a > b ? a : b;
    case Values::smallest:
      return a > b ? b : a;
  }
  return 0;
}

inline u64 load_element(const u8* data, u64 at, u32 bytes) {
  if (bytes == 8) return reinterpret_cast<const u64*>(data)[at];
  if (bytes == 4) return reinterpret_cast<const u32*>(data)[at];
  if (bytes == 2) return reinterpret_cast<const u16*>(data)[at];
  return data[at];
}
inline void store_element(u8* data, u64 at, u32 bytes, u64 element) {
  if (bytes == 8)
    reinterpret_cast<u64*>(data)[at] = element;
  else if (bytes == 4)
    reinterpret_cast<u32*>(data)[at] = static_cast<u32>(element);
  else if (bytes == 2)
    reinterpret_cast<u16*>(data)[at] = static_cast<u16>(element);
  else
    data[at] = static_cast<u8>(element);
}

// The mover for which a kernel is instantiated, as Copying and Reducing.
struct ReducingAny {
  using Unit = FirstUnit;
  static constexpr bool kByUnits = false;
  static void reduce(const Work& work, bool scaled, Operation operation) {
    const Values values = values_of(operation);
    const bool multiplies = operation.kernel == ReduceKernel::prod;
    const bool scales = scaled && operation.kernel == ReduceKernel::sum;
    const u32 divisor = operation.kernel == ReduceKernel::sum ? work.divisor : 1;
    const u32 bytes = operation.bytes;
    SCCL_ROLLED for (u64 at = work.thread; at < work.elements; at += work.threads) {
      u64 value = 0;
      SCCL_ROLLED for (u32 s = 0; s < work.source_count; ++s) {
        const Source& source = work.sources[s];
        const u64 entered = enter_any(operation, load_element(source.data, at, bytes), source.scale_bits, scales);
        value = s == 0 ? entered : combine_any(values, multiplies, value, entered);
      }
      const u64 result = leave_any(operation, value, divisor);
      SCCL_ROLLED for (u32 i = 0; i < work.sink_count; ++i) store_element(work.sinks[i], at, bytes, result);
    }
  }
};

}  // namespace sccl::device::gpu
