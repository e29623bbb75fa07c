#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests. Usage: scripts/test.sh [PRESET...]
# Without arguments: release. The others: asan-ubsan, tsan (what runs with ranks as threads), and fuzz (each fuzzer of the
# readers for some seconds).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh

presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(release)
jobs=$(nproc)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

for preset in "${presets[@]}"; do
  [ "$preset" != fuzz ] || scripts/setup.sh --fuzz
  echo "== $preset: build"
  cmake --preset "$preset" >/dev/null
  # A failed build shows the compiler's words, a good one its last line.
  cmake --build --preset "$preset" -j "$jobs" >"$log" 2>&1 || { grep -v '^\[' "$log" | tail -n 60 >&2; exit 1; }
  tail -n 1 "$log"
  echo "== $preset: tests"
  case $preset in
    # ThreadSanitizer does not follow a fork of a process that has threads, nor the locks inside Z3 and NVRTC; a search with
    # a budget of half a second gets nowhere under it, and one packing without threads would take five minutes.
    # UCX's hooks in the system's memory calls, which it sets where RDMA libraries are installed, run in threads that
    # ThreadSanitizer has ended already.
    tsan) UCX_MEM_EVENTS=no ctest --preset tsan --label-exclude processes \
            --exclude-regex '^(synth: ?(.*reference|both encodings|a search that its budget)|tools: synth|kernels: ?NVRTC|treegen: ?thirty-two)' ;;
    # AddressSanitizer needs address space of its own where a case limits it, and comes first or not at all in a preload.
    asan-ubsan) ctest --preset asan-ubsan --exclude-regex '^(faults: ?a rank that runs out of address space|tools: run(_on_hosts|_started)?$)' ;;
    *) ctest --preset "$preset" ;;
  esac
done
