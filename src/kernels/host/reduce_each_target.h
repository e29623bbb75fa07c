// Compiles the including file once per instruction set: include it first, after defining HWY_TARGET_INCLUDE.
// Only Highway's headers are used; its run-time library, which would be a second shared library, is not.
#pragma once

// Nothing here needs carry-less multiplication or AES, so no processor is turned away for lacking them.
#define HWY_DISABLE_PCLMUL_AES
// SSSE3 without SSE4 is too rare, and arrays of scalable vectors are not possible.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include "hwy/foreach_target.h"

// One pointer to `function` per InstructionSet, in its order; null where the set was not compiled.
#define SCCL_FOR_EACH_INSTRUCTION_SET(function)                                                \
  {                                                                                            \
    HWY_CHOOSE_AVX3(function), HWY_CHOOSE_AVX2(function), HWY_CHOOSE_SSE4(function),           \
        HWY_CHOOSE_NEON(function), HWY_CHOOSE_FALLBACK(function)                               \
  }
