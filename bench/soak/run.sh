#!/usr/bin/env bash
# Random collectives and splits beside kills, aborts, disagreements, stops, exec and forks; fails when anything is lost,
# wrong, hangs or grows.
# Usage: bench/soak/run.sh [BUILD_DIR [SECONDS [RANKS [SEED [LONGEST_STOP_S]]]]]   (default build/release, 600, 8, random, 30)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
library=$(realpath "$build")/src/shim/libsccl.so
[ -f "$library" ] || { echo "$library is missing: build the release preset first" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$library" "$work/libnccl.so.2"
c++ -std=c++20 -O2 -I"$root/include" "$root/bench/soak/soak.cc" -o "$work/soak" -L"$work" -l:libnccl.so.2 \
  -Wl,-rpath,"$work"
"$work/soak" "${2:-600}" "${3:-8}" "${@:4}"
