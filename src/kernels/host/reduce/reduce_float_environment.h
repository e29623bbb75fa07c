// The floating-point settings of reductions. A caller's rounding mode, traps and flushing of subnormals do not affect
// reductions, so every rank and every thread computes the same bits.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace sccl::kernels {

// Default settings (nearest, subnormals kept, nothing traps) from construction to destruction on this thread.
class FloatEnvironment {
 public:
  FloatEnvironment() : callers_(read()) {
    if (differs()) write(kDefault);
  }
  ~FloatEnvironment() {
    if (differs()) write(callers_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  using Control = unsigned;
  static constexpr Control kDefault = 0x1f80;
  static constexpr Control kStickyFlags = 0x3f;
  static Control read() { return _mm_getcsr(); }
  static void write(Control value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Control = unsigned long;
  static constexpr Control kDefault = 0;
  static constexpr Control kStickyFlags = 0;
  static Control read() {
    Control value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(Control value) { asm volatile("msr fpcr, %0" : : "r"(value) : "memory"); }
#else
#error "state here how this processor's floating-point control register is read and written"
#endif

  bool differs() const { return (callers_ & ~kStickyFlags) != kDefault; }

  const Control callers_;
};

}  // namespace sccl::kernels
