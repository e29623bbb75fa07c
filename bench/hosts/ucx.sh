#!/usr/bin/env bash
# libsccl's large messages beside ucx_perftest's over two hosts of one rank each, in both directions at once: what of the
# engine's rate reaches the user. The two measure in turns. Writes Markdown to standard output (root;
# scripts/setup.sh --bench installs ucx_perftest).
# Usage: bench/hosts/ucx.sh [BUILD_DIR] [ROUNDS] [BYTES]   (default build/release 5 67108864)
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "bench/hosts/ucx.sh makes network namespaces: run as root" >&2; exit 2; }
command -v ucx_perftest >/dev/null || { echo "ucx_perftest is not installed: scripts/setup.sh --bench" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
rounds=${2:-5}
bytes=${3:-67108864}
source "$root/bench/namespaces.sh"
work=$(mktemp -d)
trap 'drop_hosts; rm -rf "$work"' EXIT
make_two_hosts "$work"

perftest() {  # HOST OPTIONS...
  local host=$1
  shift
  "$work/shell" "10.78.0.$host" "UCX_TLS=tcp UCX_NET_DEVICES=eth0 timeout 60 ucx_perftest -f -t tag_bw -s $bytes -n $((bytes < 4194304 ? 500 : 20)) -w 5 $*"
}
# MB/s of a direction: host 2 sends to host 1, or both to each other at once (two pairs of processes).
ucx_rate() {  # one | both
  local servers=() clients=() host=2 to
  [ "$1" = one ] || host="2 1"
  rm -f "$work"/client*
  for host in $host; do
    to=$((3 - host))
    perftest "$to" -p "1333$host" >/dev/null 2>&1 & servers+=($!)
    until ip netns exec "${space}h$to" ss -ltn | grep -q ":1333$host"; do sleep 0.02; done
  done
  host=2
  [ "$1" = one ] || host="2 1"
  for host in $host; do
    perftest "$host" "10.78.0.$((3 - host))" -p "1333$host" >"$work/client$host" 2>&1 & clients+=($!)
  done
  wait "${clients[@]}" "${servers[@]}"
  # The average bandwidth, in MiB/s.
  cat "$work"/client* | awk 'NF == 8 && $1 + 0 > 0 {sum += $5; count++} END {printf "%.0f\n", 1.048576 * sum / count}'
}
sccl_rate() {  # CALL
  "$build/src/tools/sccl" perf "$1" -n 2 --hosts 2 -b "$bytes" -e "$bytes" -w 2 -i 20 -c 0 --csv "$work/csv" >/dev/null
  python3 - "$work/csv" <<'END'
import csv, sys
row = list(csv.DictReader(open(sys.argv[1])))[-1]
print("%.0f" % (1000 * max(float(row[name]) for name in row if "busbw" in name)))
END
}
ratio() { python3 -c "print('%.2f' % ($2 / $1))"; }

echo "| round | one way: ucx_perftest, MB/s | libsccl (Broadcast) | ratio | both ways: ucx_perftest, MB/s each | libsccl (Send/Recv) | ratio |"
echo "|---|---|---|---|---|---|---|"
for ((round = 1; round <= rounds; round++)); do
  theirs=$(ucx_rate one)
  ours=$(sccl_rate broadcast)
  their_exchange=$(ucx_rate both)
  our_exchange=$(sccl_rate sendrecv)
  echo "| $round | $theirs | $ours | $(ratio "$theirs" "$ours") | $their_exchange | $our_exchange | $(ratio "$their_exchange" "$our_exchange") |"
done
