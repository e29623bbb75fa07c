#!/usr/bin/env bash
# Synthesizes the catalogue of well-known machines: entries as the cache keeps them, installed with the library.
# Usage: scripts/catalogue.sh SCCL FOLDER [SECONDS [PRESET...]]   (default 10 seconds for each entry, every preset)
set -euo pipefail
[ $# -ge 2 ] || { sed -n 's/^# Usage: /usage: /p' "$0" >&2; exit 2; }
sccl=$1
folder=$2
seconds=${3:-10}
presets=("${@:4}")
[ ${#presets[@]} -gt 0 ] || presets=(dgx1p dgx1v dgx2 dgx-a100 dgx-h100 z52 z52-full mi250x mi300x pcie4 pcie8 nvpairs4)
for preset in "${presets[@]}"; do
  for collective in allgather reducescatter allreduce broadcast reduce alltoall gather scatter; do
    SCCL_CACHE_DIR=$folder "$sccl" synth --topo "$preset" --collective "$collective" --pareto --cache \
      --budget "$seconds" | sed "s/^/$preset $collective: /"
  done
done
