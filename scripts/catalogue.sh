#!/usr/bin/env bash
# Synthesizes the catalogue of well-known machines: entries as the cache keeps them, installed with the library. One
# process a core; roots that a symmetry exchanges share an entry and are passed over.
# Usage: scripts/catalogue.sh SCCL ARCHIVE [SECONDS [PRESET...]]   (default 3 seconds for each entry, every preset)
set -euo pipefail
[ $# -ge 2 ] || { sed -n 's/^# Usage: /usage: /p' "$0" >&2; exit 2; }
sccl=$1
archive=$2
seconds=${3:-3}
presets=("${@:4}")
[ ${#presets[@]} -gt 0 ] || presets=(dgx1p dgx1v dgx2 dgx-a100 dgx-h100 z52 z52-full mi250x mi300x pcie4 pcie8 nvpairs4)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/catalogue"

# Roots of one collective stand in one line: an earlier root's entry must be there when a later one looks for it.
for preset in "${presets[@]}"; do
  ranks=$("$sccl" topo --topo "$preset" --json | sed 's/.*"ranks":\([0-9]*\).*/\1/')
  for collective in allgather reducescatter allreduce alltoall; do echo "$preset" "$collective" 0; done
  for collective in broadcast reduce gather scatter; do echo "$preset" "$collective" $(seq 0 $((ranks - 1))); done
done | SCCL_CACHE_DIR=$work/catalogue xargs -P "$(nproc)" -L 1 bash -c '
  for root in "${@:4}"; do
    "$0" synth --topo "$2" --collective "$3" --root "$root" --pareto --cache --budget "$1" >/dev/null ||
      { echo "$2 $3 from root $root failed" >&2; exit 255; }
  done
  echo "$2 $3"' "$sccl" "$seconds"
tar --create --xz --file "$archive" --directory "$work" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner catalogue
