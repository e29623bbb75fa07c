#!/usr/bin/env bash
# The main job on this machine: an unchanged NCCL program, 8 ranks as 8 processes, with the library preloaded.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh

build=build/demo
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSCCL_BUILD_TESTS=OFF >/dev/null
cmake --build "$build" -j "$(nproc)" --target sccl sccl_cli | tail -n 1
library=$PWD/$build/src/shim/libsccl.so

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
echo
echo "== examples/digits.py: data-parallel training on handwritten digits, 8 processes"
NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING NCCL_DEBUG_FILE="$logs/%p" LD_PRELOAD="$library" \
  /usr/bin/python3 examples/digits.py --ranks 8
echo
echo "Which schedule served which call:"
grep -h 'rank 0/8:' "$logs"/* | sed 's/.*NCCL INFO rank 0\/8: /  /'
echo
echo "== sccl perf all_reduce -n 8"
"$build/src/tools/sccl" perf all_reduce -n 8 -b 8 -e 16M -f 8
