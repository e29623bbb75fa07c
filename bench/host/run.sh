#!/usr/bin/env bash
# libsccl against the MPI libraries installed here (scripts/setup.sh --bench): four collectives, 4 B to 256 MB, ranks as
# processes. The whole comparison writes docs/results/host.md, host_sizes.md and host.svg; a selection prints its Markdown only.
# Usage: bench/host/run.sh [BUILD_DIR] [--quick] [--collectives LIST] [--ranks LIST] [--sizes LIST] [--mpi LIST] [--pairs N]
#          [--memory LIST]
#   BUILD_DIR holds libsccl.so (default build/release); lists are separated by commas.
#   --quick: a few sizes, Open MPI only, less than two minutes; other options narrow it further, for example
#     bench/host/run.sh build --quick --collectives all_reduce --ranks 2
#   memory: malloc, nccl (of ncclMemAlloc, from 128 KiB on: there ranks use one another's buffers in place), or both
#   collectives: all_reduce, all_gather, reduce_scatter, broadcast; broadcast_moving has another root in every call
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release
collectives=all_reduce,all_gather,reduce_scatter,broadcast
ranks=2,4,8
sizes=
mpis=openmpi,mpich
pairs=15
memory=malloc,nccl
whole=yes
[ $# -eq 0 ] || [ "${1#--}" != "$1" ] || { build=$1; shift; }
while [ $# -gt 0 ]; do
  case $1 in
    --quick) whole=; mpis=openmpi; memory=malloc; pairs=7; sizes=4,256,4096,65536,1048576,16777216,67108864; shift; continue ;;
    --collectives | --ranks | --sizes | --mpi | --pairs | --memory) [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; } ;;
    *) echo "unknown option $1: see the head of $0" >&2; exit 2 ;;
  esac
  whole=
  case $1 in
    --collectives) collectives=$2 ;;
    --ranks) ranks=$2 ;;
    --sizes) sizes=$2 ;;
    --mpi) mpis=$2 ;;
    --pairs) pairs=$2 ;;
    --memory) memory=$2 ;;
  esac
  shift 2
done

build=$(realpath "$build")
source "$root/bench/program.sh"
library=$(library_of "$build")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$library" "$work/libnccl.so.2"
arguments=(--collectives "$collectives" --pairs "$pairs")
mapped_sizes=$(for power in 17 18 $(seq 20 2 28); do echo $((1 << power)); done | paste -sd,)
for mpi in ${mpis//,/ }; do
  command -v "mpicxx.$mpi" >/dev/null || { echo "$mpi is not installed: scripts/setup.sh --bench" >&2; continue; }
  "mpicxx.$mpi" -std=c++17 -O3 -march=native -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -I"$root/include" "$root/bench/host/compare_mpi.cc" \
    -o "$work/compare.$mpi" -L"$work" -l:libnccl.so.2 -Wl,-rpath,"$work"
  for count in ${ranks//,/ }; do
    bind=none
    [ "$count" -gt "$(nproc)" ] || bind=core
    if [ "$mpi" = openmpi ]; then
      start=(mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to "$bind" -n "$count")
    else
      start=(mpiexec.mpich -bind-to "$bind" -n "$count")
    fi
    for kind in ${memory//,/ }; do
      chosen=$sizes
      [ "$kind" = malloc ] || [ "$sizes" ] || chosen=$mapped_sizes
      echo "$mpi, $count processes, memory of $kind" >&2
      "${start[@]}" "$work/compare.$mpi" "${arguments[@]}" --memory "$kind" ${chosen:+--sizes "$chosen"} >"$work/$mpi.$count.$kind.csv" ||
        echo "$mpi, $count processes: ended early, what it measured counts" >&2
    done
  done
done

report=(python3 "$root/bench/host/report.py")
if [ "$whole" ]; then
  "${report[@]}" --svg "$work/host.svg" --sizes "$work/host_sizes.md" "$work"/*.csv >"$work/host.md"
  cp "$work/host.md" "$work/host_sizes.md" "$work/host.svg" "$root/docs/results/"
else
  "${report[@]}" "$work"/*.csv
fi
