// The vector instruction sets worth compiling for, told to Highway before any of its headers.
// Only Highway's headers are used; its run-time library, which would be a second shared library, is not.
#pragma once

// Nothing here needs carry-less multiplication or AES, so no processor is turned away for lacking them.
#define HWY_DISABLE_PCLMUL_AES
// Processors with SSSE3 and no SSE4 are too rare, and arrays of SVE's vectors are not possible. Address sanitizers make
// compilation several times slower, and two kinds of vectors show every access that could be wrong.
#if defined(__SANITIZE_ADDRESS__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

#include "hwy/detect_targets.h"
