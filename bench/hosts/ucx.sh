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
  "$work/shell" "10.78.0.$host" "UCX_TLS=tcp UCX_NET_DEVICES=eth0 timeout 60 ucx_perftest -f -t tag_bw -s $bytes -n 20 -w 2 $*"
}
# MB/s of each direction, both at once.
ucx_rate() {
  local servers=() clients=() one
  perftest 1 -p 13337 >"$work/server1" 2>&1 & servers+=($!)
  perftest 2 -p 13338 >"$work/server2" 2>&1 & servers+=($!)
  for one in 1 2; do
    until ip netns exec "${space}h$one" ss -ltn | grep -q ':1333[78]'; do sleep 0.05; done
  done
  perftest 2 10.78.0.1 -p 13337 >"$work/client1" 2>&1 & clients+=($!)
  perftest 1 10.78.0.2 -p 13338 >"$work/client2" 2>&1 & clients+=($!)
  wait "${clients[@]}" "${servers[@]}"
  # The average bandwidth, in MiB/s.
  cat "$work"/client? | awk 'NF == 8 && $1 + 0 > 0 {sum += $5; count++} END {printf "%.0f\n", 1.048576 * sum / count}'
}
sccl_rate() {
  "$build/src/tools/sccl" perf sendrecv -n 2 --hosts 2 -b "$bytes" -e "$bytes" -w 2 -i 20 -c 0 --csv "$work/csv" >/dev/null
  python3 - "$work/csv" <<'END'
import csv, sys
row = list(csv.DictReader(open(sys.argv[1])))[-1]
print("%.0f" % (1000 * max(float(row[name]) for name in row if "busbw" in name)))
END
}

echo "| round | ucx_perftest, MB/s each way | libsccl, MB/s each way | ratio |"
echo "|---|---|---|---|"
for ((round = 1; round <= rounds; round++)); do
  theirs=$(ucx_rate)
  ours=$(sccl_rate)
  echo "| $round | $theirs | $ours | $(python3 -c "print('%.2f' % ($ours / $theirs))") |"
done
