#!/usr/bin/env bash
# Ranks that come late, with forms of SCCL_ARRIVAL and without, in the same processes; prints tables in Markdown.
# Usage: bench/arrival/run.sh [--build DIR] [--ranks N[/HOSTS]] [--forms LIST] [--collectives LIST] [--patterns LIST] [--sizes LIST]
#                             [--mpi LIST] [--lines DIR] [--svg FILE]
#        (build/release, 8, eager,leader,chain,bound, allreduce, none,one=20,mif=10,mif=20,mif=50, 1 KiB to 16 MiB, no MPI)
# --ranks 8/2: ranks 0 to 3 are told that they are on one host, 4 to 7 on another (NCCL_HOSTID).
# --mpi openmpi,mpich: the same calls by MPI, beside "never" in the same processes (scripts/setup.sh --bench).
# --lines DIR: keeps what was measured, for report.py.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release ranks=8 forms=eager,leader,chain,bound collectives=allreduce patterns=none,one=20,mif=10,mif=20,mif=50
sizes=1024,8192,65536,524288,4194304,16777216 mpis='' lines='' svg=''
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
  case $1 in
    --build) build=$2 ;;
    --ranks) ranks=$2 ;;
    --forms) forms=$2 ;;
    --collectives) collectives=$2 ;;
    --patterns) patterns=$2 ;;
    --sizes) sizes=$2 ;;
    --mpi) mpis=$2 ;;
    --lines) lines=$2 ;;
    --svg) svg=$2 ;;
    *) echo "unknown: $1" >&2; exit 2 ;;
  esac
  shift 2
done
source "$root/bench/program.sh"
library=$(library_of "$build")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ "$lines" ] || lines=$work/lines
mkdir -p "$lines"
source=$root/bench/arrival/arrival_bench.cc
make_program "$library" "$source" "$work/bench"
# each FILE COMMAND...: all collectives and patterns.
each() {
  local file=$1
  shift
  : >"$file"
  for pattern in ${patterns//,/ }; do
    for collective in ${collectives//,/ }; do
      "$@" "$collective" "$ranks" "$pattern" "$chosen" ${sizes//,/ } >>"$file"
    done
  done
}
chosen=$forms
[ "$forms" = none ] || each "$lines/forms.json" "$work/bench"
chosen=mpi
for mpi in ${mpis//,/ }; do
  command -v "mpicxx.$mpi" >/dev/null || { echo "$mpi is not installed: scripts/setup.sh --bench" >&2; continue; }
  "mpicxx.$mpi" -std=c++20 -O2 -DARRIVAL_MPI -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -I"$root/include" "$source" \
    -o "$work/bench.$mpi" -L"$work" -l:libnccl.so.2 -Wl,-rpath,"$work"
  start=(mpiexec.mpich -bind-to none -n "${ranks%/*}")
  [ "$mpi" = mpich ] || start=(mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -n "${ranks%/*}")
  once() { : >"$work/shared"; ARRIVAL_SHARED=$work/shared "${start[@]}" "$work/bench.$mpi" "$@"; }
  each "$lines/$mpi.json" once
done
python3 "$root/bench/arrival/report.py" ${svg:+--svg "$svg"} "$lines"/*.json
