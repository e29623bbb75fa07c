// The loops of the data mover for one instruction set: operands are read once, vector by vector, reduced in registers
// and written once to every destination.
#if defined(SCCL_REDUCE_BODY_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SCCL_REDUCE_BODY_H
#undef SCCL_REDUCE_BODY_H
#else
#define SCCL_REDUCE_BODY_H
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "kernels/host/reduce/reduce_loops.h"
#include "kernels/host/vectors/element_lanes.h"
#include "platform/host/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace sccl::kernels::HWY_NAMESPACE {

// What happens to vectors between load and store: `enter` each operand's vectors, `combine` them, `leave` the result.
template <class Element>
struct Scaling {
  using L = LanesOf<Element>;
  using Bits = BitsOf<Element>;
  using Memory = typename L::Memory;
  using Value = hn::Vec<Memory>;
  using Factor = typename L::Wide;

  static HWY_INLINE Factor factor(const Operand& operand) {
    return L::widen(hn::Set(Memory(), static_cast<Bits>(operand.scale_bits)));
  }
  static HWY_INLINE Value enter(hn::Vec<Memory> v, Factor factor) {
    return L::narrow(L::multiply(L::widen(v), factor));
  }
  static HWY_INLINE Value combine(Value a, Value) { return a; }
  static HWY_INLINE hn::Vec<Memory> leave(Value v) { return v; }
};

struct NoScaling {
  struct Factor {};
  static HWY_INLINE Factor factor(const Operand&) { return {}; }
};

struct Copying : NoScaling {
  using Bits = std::uint8_t;
  using Memory = hn::ScalableTag<Bits>;
  using Value = hn::Vec<Memory>;

  static HWY_INLINE Value enter(Value v, Factor) { return v; }
  static HWY_INLINE Value combine(Value a, Value) { return a; }
  static HWY_INLINE Value leave(Value v) { return v; }
};

template <class Element, ReduceKernel kKernel, bool kScaled>
struct Arithmetic {
  using L = LanesOf<Element>;
  using Bits = BitsOf<Element>;
  using Memory = typename L::Memory;
  using Value = typename L::Wide;
  using Factor = typename std::conditional_t<kScaled, Scaling<Element>, NoScaling>::Factor;

  static HWY_INLINE Factor factor(const Operand& operand) {
    return std::conditional_t<kScaled, Scaling<Element>, NoScaling>::factor(operand);
  }
  static HWY_INLINE Value enter(hn::Vec<Memory> v, [[maybe_unused]] Factor factor) {
    if constexpr (kScaled) v = Scaling<Element>::enter(v, factor);
    return L::widen(v);
  }
  static HWY_INLINE Value combine(Value a, Value b) {
    if constexpr (kKernel == ReduceKernel::sum) return L::add(a, b);
    return L::multiply(a, b);
  }
  // For ReduceCopy::order. Processors return the first of two NaN, but compilers take the two orders for the same.
  static constexpr bool kHasPayloads = !std::is_integral_v<Element>;
  static HWY_INLINE Value combine_in_order(Value first, Value second) {
    return first_nan_or(first, combine(first, first), combine(first, second));
  }
  static HWY_INLINE hn::Vec<Memory> leave(Value v) { return L::narrow(v); }
};

template <class Element, ReduceKernel kKernel, bool kScaled>
struct Extremum {
  using Bits = BitsOf<Element>;
  using Memory = std::conditional_t<kScaled, typename LanesOf<Element>::Memory, hn::ScalableTag<Bits>>;
  using O = Order<Element, kKernel>;
  using Value = decltype(O::key(Memory(), hn::Zero(Memory())));
  using Factor = typename std::conditional_t<kScaled, Scaling<Element>, NoScaling>::Factor;

  static HWY_INLINE Factor factor(const Operand& operand) {
    return std::conditional_t<kScaled, Scaling<Element>, NoScaling>::factor(operand);
  }
  static HWY_INLINE Value enter(hn::Vec<Memory> v, [[maybe_unused]] Factor factor) {
    if constexpr (kScaled) v = Scaling<Element>::enter(v, factor);
    return O::key(Memory(), v);
  }
  static HWY_INLINE Value combine(Value a, Value b) {
    if constexpr (kKernel == ReduceKernel::max) return hn::Max(a, b);
    return hn::Min(a, b);
  }
  static HWY_INLINE hn::Vec<Memory> leave(Value v) { return O::element(Memory(), v); }
};

template <class Element, ReduceKernel kKernel, bool kScaled>
using Reduction = std::conditional_t<kKernel == ReduceKernel::sum || kKernel == ReduceKernel::prod,
                                     Arithmetic<Element, kKernel, kScaled>, Extremum<Element, kKernel, kScaled>>;

// Access to memory: whole vectors, or the remaining elements if they are fewer.
struct WholeVectors {
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> load(D d, const T* from) const {
#if HWY_TARGET == HWY_SCALAR
    T element;  // copied as bytes: the caller's objects have another type
    std::memcpy(&element, from, sizeof(T));
    return hn::Set(d, element);
#else
    return hn::LoadU(d, from);
#endif
  }
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE void store(hn::Vec<D> v, [[maybe_unused]] D d, T* to) const {
#if HWY_TARGET == HWY_SCALAR
    const T element = hn::GetLane(v);
    std::memcpy(to, &element, sizeof(T));
#else
    hn::StoreU(v, d, to);
#endif
  }
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE void stream(hn::Vec<D> v, D d, T* to) const {
#if HWY_TARGET == HWY_SCALAR
    store(v, d, to);
#else
    hn::Stream(v, d, to);
#endif
  }
};

inline HWY_NOINLINE void copy_part(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

struct Remainder {
  std::size_t elements;

  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE hn::Vec<D> load(D d, const T* from) const {
    if (elements >= hn::Lanes(d)) return WholeVectors().load(d, from);
    HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
    copy_part(lanes, from, elements * sizeof(T));
    return hn::Load(d, lanes);
  }
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE void store(hn::Vec<D> v, D d, T* to) const {
    if (elements >= hn::Lanes(d)) return WholeVectors().store(v, d, to);
    HWY_ALIGN T lanes[hn::MaxLanes(D())];
    hn::Store(v, d, lanes);
    copy_part(to, lanes, elements * sizeof(T));
  }
  template <class D, class T = hn::TFromD<D>>
  HWY_INLINE void stream(hn::Vec<D> v, D d, T* to) const {
    store(v, d, to);
  }
};

template <class R>
struct Source {
  const typename R::Bits* data;
  typename R::Factor factor;

  explicit HWY_INLINE Source(const Operand& operand)
      : data(static_cast<const typename R::Bits*>(operand.data)), factor(R::factor(operand)) {}
};

// The usual shapes keep their pointers in registers.
struct UsualShape {
  static constexpr bool kIsUsual = true;
};
template <class R>
struct OneToOne : UsualShape {
  const Source<R> from;
  typename R::Bits* const to;

  explicit HWY_INLINE OneToOne(const ReduceCopy& work)
      : from(work.operands[0]), to(static_cast<typename R::Bits*>(work.destinations[0])) {}
  static constexpr HWY_INLINE int sources() { return 1; }
  static constexpr HWY_INLINE int destinations() { return 1; }
  HWY_INLINE const Source<R>& source(int) const { return from; }
  HWY_INLINE typename R::Bits* destination(int) const { return to; }
};
// Forwarding in a ring: from a slot into the result and into the next slot.
template <class R>
struct OneToPair : UsualShape {
  const Source<R> from;
  typename R::Bits* const here;
  typename R::Bits* const there;

  explicit HWY_INLINE OneToPair(const ReduceCopy& work)
      : from(work.operands[0]),
        here(static_cast<typename R::Bits*>(work.destinations[0])),
        there(static_cast<typename R::Bits*>(work.destinations[1])) {}
  static constexpr HWY_INLINE int sources() { return 1; }
  static constexpr HWY_INLINE int destinations() { return 2; }
  HWY_INLINE const Source<R>& source(int) const { return from; }
  HWY_INLINE typename R::Bits* destination(int i) const { return i == 0 ? here : there; }
};
template <class R>
struct PairToOne : UsualShape {
  const Source<R> first, second;
  typename R::Bits* const to;

  explicit HWY_INLINE PairToOne(const ReduceCopy& work)
      : first(work.operands[0]), second(work.operands[1]), to(static_cast<typename R::Bits*>(work.destinations[0])) {}
  static constexpr HWY_INLINE int sources() { return 2; }
  static constexpr HWY_INLINE int destinations() { return 1; }
  HWY_INLINE const Source<R>& source(int i) const { return i == 0 ? first : second; }
  HWY_INLINE typename R::Bits* destination(int) const { return to; }
};
// The owner of a part in AllReduce of two ranks: stores the sum for itself and for the peer.
template <class R>
struct PairToPair : UsualShape {
  const Source<R> first, second;
  typename R::Bits* const here;
  typename R::Bits* const there;

  explicit HWY_INLINE PairToPair(const ReduceCopy& work)
      : first(work.operands[0]),
        second(work.operands[1]),
        here(static_cast<typename R::Bits*>(work.destinations[0])),
        there(static_cast<typename R::Bits*>(work.destinations[1])) {}
  static constexpr HWY_INLINE int sources() { return 2; }
  static constexpr HWY_INLINE int destinations() { return 2; }
  HWY_INLINE const Source<R>& source(int i) const { return i == 0 ? first : second; }
  HWY_INLINE typename R::Bits* destination(int i) const { return i == 0 ? here : there; }
};
template <class R>
struct AnyToAny {
  static constexpr bool kIsUsual = false;
  const ReduceCopy& work;

  explicit HWY_INLINE AnyToAny(const ReduceCopy& all) : work(all) {}
  HWY_INLINE int sources() const { return work.operand_count; }
  HWY_INLINE int destinations() const { return work.destination_count; }
  HWY_INLINE Source<R> source(int i) const { return Source<R>(work.operands[i]); }
  HWY_INLINE typename R::Bits* destination(int i) const { return static_cast<typename R::Bits*>(work.destinations[i]); }
  HWY_INLINE bool goes_first(int i) const { return (work.order >> i & 1) != 0; }
};

// The peer has read a slot's lines since we wrote them last. A store that has to wait for such a line makes all later
// stores wait: between cores without a shared cache, this prefetch saves 10 to 40 % of a call through slots.
template <class Bits>
HWY_INLINE void take_lines_ahead(const Bits* to, std::size_t bytes) {
  constexpr std::size_t kAheadBytes = 1024;
  for (std::size_t at = 0; at < bytes; at += kStreamAlignment)
    host::prefetch_to_write(reinterpret_cast<const char*>(to) + kAheadBytes + at);
}

template <class R>
constexpr bool has_payloads() {
  if constexpr (requires { R::kHasPayloads; }) return R::kHasPayloads;
  return false;
}

template <class R, class Shape>
HWY_INLINE typename R::Value combine([[maybe_unused]] const Shape& shape, [[maybe_unused]] int operand,
                                     typename R::Value sum, typename R::Value value) {
  if constexpr (!Shape::kIsUsual && has_payloads<R>()) {
    if (shape.work.order != 0)
      return shape.goes_first(operand) ? R::combine_in_order(value, sum) : R::combine_in_order(sum, value);
  }
  return R::combine(sum, value);
}

// All vectors of all operands are loaded before any destination is written, so a destination may be an operand. The
// vectors of one destination are stored before those of the next: cores merge only consecutive stores into a line, and
// alternating between two destinations costs half as much again (AllReduce of 1 MB by two ranks).
template <class R, int kVectors, class Shape, class Access>
HWY_INLINE void reduce_vectors(const Shape& shape, std::size_t at, std::uint32_t streamed, Access access) {
  using Memory = typename R::Memory;
  const Memory d;
  const std::size_t lanes = hn::Lanes(d);
  typename R::Value values[kVectors];
  const Source<R>& first = shape.source(0);
  for (int v = 0; v < kVectors; ++v) values[v] = R::enter(access.load(d, first.data + at + v * lanes), first.factor);
  for (int i = 1; i < shape.sources(); ++i) {
    const Source<R>& next = shape.source(i);
    for (int v = 0; v < kVectors; ++v) {
      const auto value = R::enter(access.load(d, next.data + at + v * lanes), next.factor);
      values[v] = combine<R>(shape, i, values[v], value);
    }
  }
  hn::Vec<Memory> results[kVectors];
  for (int v = 0; v < kVectors; ++v) results[v] = R::leave(values[v]);
  for (int i = 0; i < shape.destinations(); ++i) {
    typename R::Bits* const to = shape.destination(i) + at;
    if (is_streamed(streamed, i))
      for (int v = 0; v < kVectors; ++v) access.stream(results[v], d, to + v * lanes);
    else {
      if constexpr (kVectors > 1) take_lines_ahead(to, kVectors * lanes * sizeof(typename R::Bits));
      for (int v = 0; v < kVectors; ++v) access.store(results[v], d, to + v * lanes);
    }
  }
}

// Hardware prefetch starts anew in every page. Sources of stores past the caches mostly come from memory; this prefetch
// gains 5 to 8 % for copies (AllGather of 64 MiB by two ranks) and nothing for sums of two.
template <class Bits>
HWY_INLINE void fetch_ahead(const Bits* from, std::size_t bytes) {
  constexpr std::size_t kAheadBytes = 768;
  constexpr std::size_t kLineBytes = 64;
  for (std::size_t at = 0; at < bytes; at += kLineBytes)
    hwy::Prefetch(reinterpret_cast<const char*>(from) + kAheadBytes + at);
}

// A rider's vectors of one step. They are loaded before the step's results are stored, and stored after these results:
// loads from memory begin early, and stores past the caches fill their lines without a pause.
template <int kVectors>
class Carried {
 public:
  HWY_INLINE void load(const Rider& rider) {
    for (int v = 0; v < kVectors; ++v) vectors_[v] = WholeVectors().load(D(), rider.from + v * hn::Lanes(D()));
  }
  HWY_INLINE void store(Rider& rider) const {
    if (rider.streamed) {
      for (int v = 0; v < kVectors; ++v) WholeVectors().stream(vectors_[v], D(), rider.to + v * hn::Lanes(D()));
    } else {
      take_lines_ahead(rider.to, kVectors * hn::Lanes(D()));
      for (int v = 0; v < kVectors; ++v) WholeVectors().store(vectors_[v], D(), rider.to + v * hn::Lanes(D()));
    }
    rider.from += kVectors * hn::Lanes(D());
    rider.to += kVectors * hn::Lanes(D());
    rider.bytes -= kVectors * hn::Lanes(D());
  }

 private:
  using D = hn::ScalableTag<std::uint8_t>;

  hn::Vec<D> vectors_[kVectors];
};

// Runs as many whole steps as both the work and the riders have; the loop keeps the riders in registers. Returns the
// elements done.
template <class R, int kVectors, int kRiders, class Shape>
std::size_t reduce_with_riders(const ReduceCopy& work, const Shape& shape, std::span<Rider> riders) {
  using Memory = typename R::Memory;
  constexpr int kCarried = static_cast<int>(kVectors * hn::MaxLanes(Memory()) * sizeof(typename R::Bits) /
                                            hn::MaxLanes(hn::ScalableTag<std::uint8_t>()));
  static_assert(kCarried > 0);
  const std::size_t step = kVectors * hn::Lanes(Memory());
  std::size_t steps = work.elements / step;
  Rider here[kRiders];
  for (int i = 0; i < kRiders; ++i) {
    here[i] = riders[static_cast<std::size_t>(i)];
    steps = std::min(steps, here[i].bytes / (step * sizeof(typename R::Bits)));
  }
  const std::uint32_t streamed = work.streamed;
  for (std::size_t at = 0; at < steps * step; at += step) {
    Carried<kCarried> carried[kRiders];
    for (int i = 0; i < kRiders; ++i) carried[i].load(here[i]);
    reduce_vectors<R, kVectors>(shape, at, streamed, WholeVectors());
    for (int i = 0; i < kRiders; ++i) carried[i].store(here[i]);
  }
  for (int i = 0; i < kRiders; ++i) riders[static_cast<std::size_t>(i)] = here[i];
  return steps * step;
}

template <class R, template <class> class Shape>
void reduce_loop(const ReduceCopy& work, std::span<Rider> riders) {
  constexpr int kVectors = 4;
  const Shape<R> shape(work);
  const std::size_t lanes = hn::Lanes(typename R::Memory());
  const std::size_t elements = work.elements;
  const std::uint32_t streamed = work.streamed;
  std::size_t at = 0;
  if constexpr (std::is_same_v<R, Copying>)
    if (riders.size() > 1) at = reduce_with_riders<R, kVectors, 2>(work, shape, riders);
  if (at == 0 && !riders.empty()) at = reduce_with_riders<R, kVectors, 1>(work, shape, riders);
  if (streamed != 0 && work.operand_count == 1) {
    for (; elements - at >= kVectors * lanes; at += kVectors * lanes) {
      fetch_ahead(shape.source(0).data + at, kVectors * lanes * sizeof(typename R::Bits));
      reduce_vectors<R, kVectors>(shape, at, streamed, WholeVectors());
    }
  }
  for (; elements - at >= kVectors * lanes; at += kVectors * lanes) {
    reduce_vectors<R, kVectors>(shape, at, streamed, WholeVectors());
  }
  for (; at < elements; at += lanes) reduce_vectors<R, 1>(shape, at, 0, Remainder{elements - at});
}

// Sums and products of signed integers have the same bits as those of unsigned integers.
template <class Element, ReduceKernel kKernel>
using Arithmetical =
    std::conditional_t<std::is_integral_v<Element> && kKernel <= ReduceKernel::prod, BitsOf<Element>, Element>;

template <class Element, ReduceKernel kKernel>
constexpr KernelLoops kKernelLoops = {
    &reduce_loop<Reduction<Arithmetical<Element, kKernel>, kKernel, false>, PairToOne>,
    &reduce_loop<Reduction<Arithmetical<Element, kKernel>, kKernel, false>, PairToPair>,
    &reduce_loop<Reduction<Arithmetical<Element, kKernel>, kKernel, false>, AnyToAny>,
    &reduce_loop<Reduction<Arithmetical<Element, kKernel>, kKernel, true>, AnyToAny>};

template <class Element>
constexpr Loops kLoops = {&reduce_loop<Scaling<Arithmetical<Element, ReduceKernel::sum>>, AnyToAny>,
                          {kKernelLoops<Element, ReduceKernel::sum>, kKernelLoops<Element, ReduceKernel::prod>,
                           kKernelLoops<Element, ReduceKernel::max>, kKernelLoops<Element, ReduceKernel::min>}};

}  // namespace sccl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
