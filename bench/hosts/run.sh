#!/usr/bin/env bash
# libsccl against the MPI libraries installed here over two hosts, which are network namespaces joined by a pair of
# virtual interfaces (root; scripts/setup.sh --bench installs the MPI libraries). Blocks of calls of both libraries
# alternate in the same processes (bench/host/compare_mpi.cc). With one rank on each host UCX alone is measured in the
# same way (ucx_alone.cc). Writes Markdown to standard output.
# Usage: bench/hosts/run.sh [BUILD_DIR] [--collectives LIST] [--sizes LIST] [--ranks LIST] [--mpi LIST] [--pairs N] [--limit SECONDS]
#        [--bound yes|no] [--svg FILE] [--keep FOLDER]
#   BUILD_DIR holds libsccl.so (default build/release); lists are separated by commas.
#   svg: a file for a plot of the ratios. keep: a folder for what was measured, and of earlier runs to be reported with it.
#   ranks: of each host. mpi: ob1 and ucx (Open MPI's ways over TCP), mpich. limit: of each of ranks and mpi.
#   bound: whether UCX alone is measured.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "bench/hosts/run.sh makes network namespaces: run as root" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release
collectives=all_reduce,all_gather,reduce_scatter,broadcast,alltoall,sendrecv
sizes=8,1024,65536,1048576,67108864
ranks=1,4
mpis=ob1,ucx,mpich
pairs=5
limit=300
bound=yes
svg=
keep=

[ $# -eq 0 ] || [ "${1#--}" != "$1" ] || { build=$1; shift; }
command="bench/hosts/run.sh $*"
load=$(cut -d " " -f 1 /proc/loadavg)  # of other programs: nothing of ours runs yet
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
  case $1 in
    --collectives) collectives=$2 ;;
    --sizes) sizes=$2 ;;
    --ranks) ranks=$2 ;;
    --mpi) mpis=$2 ;;
    --pairs) pairs=$2 ;;
    --limit) limit=$2 ;;
    --bound) bound=$2 ;;
    --svg) svg=$2 ;;
    --keep) keep=$2 ;;
    *) echo "unknown option $1: see the head of $0" >&2; exit 2 ;;
  esac
  shift 2
done
source "$root/bench/program.sh"
source "$root/bench/namespaces.sh"
library=$(library_of "$build")

work=$(mktemp -d)
trap 'drop_hosts; rm -rf "$work"' EXIT
make_two_hosts "$work"
ln -s "$library" "$work/libnccl.so.2"
for kind in openmpi mpich; do
  command -v "mpicxx.$kind" >/dev/null || { echo "$kind is not installed: scripts/setup.sh --bench" >&2; continue; }
  "mpicxx.$kind" -std=c++17 -O3 -march=native -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -I"$root/include" \
    "$root/bench/host/compare_mpi.cc" -o "$work/compare.$kind" -L"$work" -l:libnccl.so.2 -Wl,-rpath,'$ORIGIN'
done
mkdir "$work/bound"
if [ "$bound" = yes ]; then
  c++ -std=c++20 -O3 -march=native -fPIC -shared -I"$root/include" "$root/bench/hosts/ucx_alone.cc" \
    -o "$work/bound/libnccl.so.2" -lucp -lucs
  cp "$work"/compare.* "$work/bound/"
fi

compare() {  # NAME PROGRAM FILE: by the starter in `start`
  local line
  echo "$1" >&2
  printf -v line '%q ' env -u NCCL_DEBUG timeout -k 5 "$limit" "${start[@]}" "$2" "${arguments[@]}"
  { "$work/shell" 10.78.0.1 "$line" >"$work/$3" 2>"$work/error"; } ||
    { echo "$1: ended early, what it measured counts:" >&2; tail -3 "$work/error" >&2; }
}

arguments=(--collectives "$collectives" --sizes "$sizes" --pairs "$pairs" --beside no)
for count in ${ranks//,/ }; do
  both=10.78.0.1:$count,10.78.0.2:$count
  open_mpi_on "$both" "$work"
  for mpi in ${mpis//,/ }; do
    kind=openmpi
    case $mpi in
      ob1) start=("${open_mpi[@]}" -n $((2 * count)) --mca pml ob1 --mca btl self,vader,tcp --mca btl_tcp_if_include eth0) ;;
      ucx) start=("${open_mpi[@]}" -n $((2 * count)) --mca pml ucx --mca opal_common_ucx_devices any
        --mca opal_common_ucx_tls any -x UCX_TLS=tcp,self,sysv,posix -x UCX_NET_DEVICES=eth0) ;;
      mpich) kind=mpich
        start=(env UCX_TLS=tcp,self,sysv,posix UCX_NET_DEVICES=eth0 mpiexec.hydra -launcher rsh -launcher-exec "$work/shell" -iface eth0
          -hosts "$both" -n $((2 * count))) ;;
      *) echo "unknown mpi $mpi: ob1, ucx or mpich" >&2; exit 2 ;;
    esac
    [ -x "$work/compare.$kind" ] || continue
    compare "$mpi, 2 hosts of $count" "$work/compare.$kind" "$count.$mpi.csv"
    if [ "$count" = 1 ] && [ "$bound" = yes ]; then
      compare "$mpi, UCX alone" "$work/bound/compare.$kind" "bound.$mpi.csv"
    fi
  done
done
if [ -n "$keep" ]; then
  mkdir -p "$keep"
  cp "$work"/*.csv "$keep/"
else
  keep=$work
fi
python3 "$root/bench/hosts/report.py" --command "$command" --load "$load" --tcp "$tcp" ${svg:+--svg "$svg"} "$keep"/*.csv
