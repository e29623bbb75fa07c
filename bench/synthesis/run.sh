#!/usr/bin/env bash
# Measures synthesis and writes docs/results/synthesis.md.
# Usage: bench/synthesis/run.sh [BUILD_DIR [REPEATS]]   (default build/release, configured, and 3)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
repeats=${2:-3}
[ -f "$build/CMakeCache.txt" ] || { echo "$build is not configured: cmake --preset release" >&2; exit 2; }
cmake --build "$build" --target bench_synthesis >&2
result=$(mktemp)
trap 'rm -f "$result"' EXIT
"$build/bench/bench_synthesis" "$repeats" >"$result"
cp "$result" "$root/docs/results/synthesis.md"
