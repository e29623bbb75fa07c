#!/usr/bin/env bash
# AllReduce against the MPI libraries installed here, for 2, 4 and 8 processes; prints Markdown.
# Usage: bench/host/run.sh [BUILD_DIR [REPEATS]]   (default build/release, which must hold libsccl.so, and 9)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${1:-$root/build/release}")
repeats=${2:-9}
library=$build/src/shim/libsccl.so
[ -f "$library" ] || { echo "$library is missing: build the release preset first" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$library" "$work/libnccl.so.2"

echo "# AllReduce on the host against MPI"
echo
echo "Command: \`bench/host/run.sh\` on $(nproc) cores ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1))."
for mpi in openmpi mpich; do
  command -v "mpicxx.$mpi" >/dev/null || { echo; echo "$mpi is not installed"; continue; }
  "mpicxx.$mpi" -std=c++17 -O2 -I"$root/include" "$root/bench/host/compare_mpi.cc" -o "$work/compare.$mpi" \
    -L"$work" -l:libnccl.so.2 -Wl,-rpath,"$work"
  for ranks in 2 4 8; do
    # MPICH spins when ranks outnumber cores and takes 10 to 100 ms a call.
    if [ "$mpi" = mpich ] && [ "$ranks" -gt "$(nproc)" ]; then continue; fi
    echo; echo '```'
    if [ "$mpi" = openmpi ]; then
      mpirun.openmpi --allow-run-as-root --oversubscribe -n "$ranks" "$work/compare.$mpi" "$repeats"
    else
      mpiexec.mpich -n "$ranks" "$work/compare.$mpi" "$repeats"
    fi
    echo '```'
  done
done
