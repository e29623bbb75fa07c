// Compiles the including file once per instruction set: include it first, after defining HWY_TARGET_INCLUDE.
#pragma once

// Must come first: it determines what to compile for.
// clang-format off
#include "kernels/host/vectors/vector_targets.h"
#include "hwy/foreach_target.h"
// clang-format on

// One pointer to `function` per InstructionSet, in its order; null where the set was not compiled.
#define SCCL_FOR_EACH_INSTRUCTION_SET(function)                                                                 \
  {                                                                                                             \
    HWY_CHOOSE_AVX3(function), HWY_CHOOSE_AVX2(function), HWY_CHOOSE_SSE4(function), HWY_CHOOSE_NEON(function), \
        HWY_CHOOSE_FALLBACK(function)                                                                           \
  }
