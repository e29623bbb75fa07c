#!/usr/bin/env bash
# The device source compiles as HIP with a plain clang, without AMD's headers, for one architecture of each kind.
# Usage: hip_test.sh CLANG SOURCE_DIR
set -euo pipefail
clang=$1
source=$2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cat >"$out/kernels.cc" <<'CC'
#include "kernels/gpu/call_kernel.h"
using namespace sccl;
using namespace sccl::device::gpu;
SCCL_GPU_KERNEL(sccl_copy, Copying)
SCCL_GPU_ONE_SIDED_KERNEL(sccl_one_sided)
SCCL_GPU_SIGNAL_KERNEL(sccl_signal)
SCCL_GPU_KERNEL(sccl_any, ReducingAny)
SCCL_GPU_MOVE_KERNEL(sccl_move_any, ReducingAny)
SCCL_GPU_KERNEL(sccl_bfloat16_sum, Reducing<DataType::bfloat16, ReduceKernel::sum>)
SCCL_GPU_MOVE_KERNEL(sccl_move_float16_max, Reducing<DataType::float16, ReduceKernel::max>)
CC
compiled=0
for arch in gfx906 gfx90a gfx942 gfx1100 gfx1201; do
  if ! "$clang" -x hip --cuda-device-only --offload-arch=$arch -nogpulib -nogpuinc --no-gpu-bundle-output -std=c++17 -O2 \
    -ffp-contract=off -I "$source/src" -o "$out/$arch" "$out/kernels.cc" 2>"$out/log"; then
    # Older compilers do not know the newest devices; anything else is a fault of the source.
    grep -qE "unsupported HIP gpu architecture|invalid target ID|[Uu]nknown target CPU" "$out/log" || { cat "$out/log" >&2; exit 1; }
    echo "$arch: skipped, $clang does not know it"
    continue
  fi
  [ -s "$out/$arch" ] || { echo "$arch: nothing was written" >&2; exit 1; }
  compiled=$((compiled + 1))
done
echo "$compiled architectures"
[ $compiled -gt 0 ]
