#!/usr/bin/env bash
# How long a communicator's whole init takes over hosts, which are network namespaces of this machine (root). Writes
# Markdown to standard output.
# Usage: bench/bootstrap/init_hosts.sh [BUILD_DIR] [HOSTS] [RANKS_OF_A_HOST] [COUNT]   (default build/release 2 4 21)
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "bench/bootstrap/init_hosts.sh makes network namespaces: run as root" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
hosts=${2:-2}
each=${3:-4}
count=${4:-21}
source "$root/bench/program.sh"
source "$root/bench/namespaces.sh"
work=$(mktemp -d)
trap 'drop_hosts; rm -rf "$work"' EXIT
make_program "$(library_of "$build")" "$root/bench/bootstrap/init_time.cc" "$work/init_time"
make_hosts "$hosts" "$work"
echo "| ranks on $hosts hosts | ms of a process's first init | ms of the later $((count - 1)), median (least-most) |"
echo "|---|---|---|"
ranks=()
for ((rank = 0; rank < hosts * each; rank++)); do
  "$work/shell" "10.78.0.$((rank / each + 1))" "exec $work/init_time $work/id $rank $((hosts * each)) $count" & ranks+=($!)
done
for rank in "${ranks[@]}"; do wait "$rank"; done
