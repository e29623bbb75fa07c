#!/usr/bin/env bash
# Ranks that come late, with SCCL_ARRIVAL=FORM and without, in the same processes; prints a table in Markdown.
# Usage: bench/arrival/run.sh [BUILD_DIR [RANKS [FORM [PATTERN...]]]]
#        (default build/release, 8, eager, none one=20 half=20 mif=10 mif=20 mif=50)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
ranks=${2:-8}
form=${3:-eager}
patterns=("${@:4}")
[ ${#patterns[@]} -gt 0 ] || patterns=(none one=20 half=20 mif=10 mif=20 mif=50)
source "$root/bench/program.sh"
library=$(library_of "$build")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make_program "$library" "$root/bench/arrival/arrival_bench.cc" "$work/bench"
for pattern in "${patterns[@]}"; do
  for collective in allreduce reduce reducescatter; do
    case "$collective $pattern" in reduce\ mif* | reducescatter\ mif* | reduce\ half* | reducescatter\ half*) continue ;; esac
    timeout 300 "$work/bench" "$collective" "$ranks" "$pattern" "$form" 1024 8192 65536 524288 4194304 >> "$work/lines"
  done
done
python3 - "$work/lines" <<'PYTHON'
import json
import math
import sys

lines = [json.loads(line) for line in open(sys.argv[1])]
print("| collective | late | bytes | one message, us | tail without, us | with | ratio (quartiles) | in call without, us | with |")
print("|---|---|---|---|---|---|---|---|---|")
for one in lines:
    late = one["pattern"] if not one["pattern"].startswith("none") else "nobody"
    low, high = one["quartiles"]
    print(f"| {one['collective']} | {late} | {one['bytes']} | {one['message_us']:.1f} | {one['never_tail_us']:.0f} | "
          f"{one['tail_us']:.0f} | {one['tail_ratio']:.2f} ({low:.2f} to {high:.2f}) | {one['never_in_call_us']:.0f} | "
          f"{one['in_call_us']:.0f} |")
print()
for pattern in dict.fromkeys(one["pattern"] for one in lines):
    logs = [math.log(one["tail_ratio"]) for one in lines if one["pattern"] == pattern]
    print(f"Geometric mean of the ratios, {pattern}: {math.exp(sum(logs) / len(logs)):.2f}")
PYTHON
