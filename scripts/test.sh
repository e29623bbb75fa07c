#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests. Usage: scripts/test.sh [PRESET...]
# Without arguments: release. The others: asan-ubsan, and tsan (what runs with ranks as threads).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh

presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(release)
jobs=$(nproc)

for preset in "${presets[@]}"; do
  echo "== $preset: build"
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" -j "$jobs" | tail -n 1
  echo "== $preset: tests"
  case $preset in
    # ThreadSanitizer does not follow a fork of a process that has threads.
    tsan) ctest --preset tsan --label-exclude processes ;;
    *) ctest --preset "$preset" ;;
  esac
done
