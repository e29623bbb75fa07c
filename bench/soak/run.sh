#!/usr/bin/env bash
# Random collectives and splits beside kills, aborts, disagreements, stops, exec and forks; fails when anything is lost,
# wrong, hangs or grows.
# Usage: bench/soak/run.sh [BUILD_DIR [SECONDS [RANKS [SEED [LONGEST_STOP_S]]]]]   (default build/release, 600, 8, random, 30)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
source "$root/bench/program.sh"
library=$(library_of "$build")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make_program "$library" "$root/bench/soak/soak.cc" "$work/soak"
"$work/soak" "${2:-600}" "${3:-8}" "${@:4}"
