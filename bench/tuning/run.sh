#!/usr/bin/env bash
# Writes docs/results/tuning.md: MIAD's slices against the best fixed ones, measured on this host and simulated.
# Usage: bench/tuning/run.sh [BUILD]   (default build/release; the host should be quiet, and it takes some minutes)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
cmake --build "$build" --target bench_tuning bench_paired sccl_cli >&2
result=$root/docs/results/tuning.md
trap 'rm -f "$result.part"' EXIT
{
  printf '# Slices by MIAD\n\nMultiplicative increase, additive decrease (Blink 4.2.1). `bench/tuning/run.sh` writes this page.\n\n'
  python3 "$root/bench/tuning/miad.py" "$build"
  "$build/bench/bench_tuning"
} > "$result.part"
cp "$result.part" "$result"
