#!/usr/bin/env bash
# Writes docs/results/choice.md: the choice among schedules against an exhaustive search, by simulation on every preset
# and measured on this host, and what serves parts of a DGX-1V.
# Usage: bench/choice/run.sh [BUILD [SECONDS]]   (default build/release; seconds of search for each collective, 0.5)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
seconds=${2:-0.5}
cmake --build "$build" --target bench_choice bench_paired sccl_cli >&2
result=$root/docs/results/choice.md
trap 'rm -f "$result.part"' EXIT
failed=0
{
  "$build/bench/bench_choice" "$seconds"
  python3 "$root/bench/choice/parts.py" "$build" --factor 4 || failed=1  # what failed stands on the page
  python3 "$root/bench/choice/host.py" "$build"
} > "$result.part"
cp "$result.part" "$result"
exit $failed
