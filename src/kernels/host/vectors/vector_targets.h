// Tells Highway which vector instruction sets to compile for; included before any Highway header. Only the headers of
// Highway are used. Its run-time library would be a second shared library.
#pragma once

// No loop needs carry-less multiplication or AES, so processors without them are not excluded.
#define HWY_DISABLE_PCLMUL_AES
// Processors with SSSE3 but without SSE4 are rare, and SVE vectors cannot form arrays. Address sanitizers make
// compilation several times slower, so two instruction sets remain: they still show every wrong access.
#if defined(__SANITIZE_ADDRESS__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

#include "hwy/detect_targets.h"
