// The choice of vector instructions at run time.
#include "kernels/host/vectors/instruction_set.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "kernels/host/vectors/vector_targets.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace sccl::kernels {
namespace {

// -1: not chosen yet. Relaxed everywhere: the value publishes no other data, and every thread would choose the same
//  value.
std::atomic<int> chosen_set{-1};

#if HWY_ARCH_X86
bool has_f16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
// Every feature that the compiler may use in functions compiled for the set; the system must save the registers, too.
bool processor_has(InstructionSet set) {
  __builtin_cpu_init();
  const bool sse4 = __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.2");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  switch (set) {
    case InstructionSet::avx512:
      return avx512;
    case InstructionSet::avx2:
      return avx2;
    case InstructionSet::sse4:
      return sse4;
    default:
      return set == InstructionSet::portable;
  }
}
#else
bool processor_has(InstructionSet) { return true; }  // only one set was compiled
#endif

bool is_compiled(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512:
      return HWY_TARGETS & HWY_AVX3;
    case InstructionSet::avx2:
      return HWY_TARGETS & HWY_AVX2;
    case InstructionSet::sse4:
      return HWY_TARGETS & HWY_SSE4;
    case InstructionSet::neon:
      return HWY_TARGETS & HWY_NEON;
    case InstructionSet::portable:
      return HWY_TARGETS & (HWY_SCALAR | HWY_EMU128);
  }
  return false;
}

}  // namespace

const char* name(InstructionSet set) {
  constexpr const char* kNames[kInstructionSetCount] = {"AVX-512", "AVX2", "SSE4", "NEON", "portable"};
  return kNames[static_cast<int>(set)];
}

std::vector<InstructionSet> available_instruction_sets() {
  std::vector<InstructionSet> sets;
  for (int i = 0; i < kInstructionSetCount; ++i) {
    const auto set = static_cast<InstructionSet>(i);
    if (is_compiled(set) && processor_has(set)) sets.push_back(set);
  }
  if (sets.empty()) {
    fail(ErrorCode::system_error,
         "this processor lacks the vector instructions the library was compiled for (data mover): compile it for this "
         "processor or a more general one");
  }
  return sets;
}

InstructionSet current_instruction_set() {
  int set = chosen_set.load(std::memory_order_relaxed);
  if (set < 0) {
    set = static_cast<int>(available_instruction_sets().front());
    chosen_set.store(set, std::memory_order_relaxed);
  }
  return static_cast<InstructionSet>(set);
}

void use_instruction_set(InstructionSet set) {
  const auto sets = available_instruction_sets();
  if (std::find(sets.begin(), sets.end(), set) == sets.end()) {
    fail(ErrorCode::invalid_argument, "{} instructions are not available (data mover): choose an available set",
         name(set));
  }
  chosen_set.store(static_cast<int>(set), std::memory_order_relaxed);
}

}  // namespace sccl::kernels
