#!/usr/bin/env bash
# Writes docs/results/choice.md: the choice among schedules against an exhaustive search, by simulation on every preset
# and measured on this host. Usage: bench/choice/run.sh [BUILD [SECONDS]]   (seconds of search for each collective)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
seconds=${2:-2}
cmake --build "$build" --target bench_choice sccl_cli >&2
{
  "$build/bench/bench_choice" "$seconds"
  echo
  python3 "$root/bench/choice/host.py" "$build"
} > "$root/docs/results/choice.md.part"
mv "$root/docs/results/choice.md.part" "$root/docs/results/choice.md"
