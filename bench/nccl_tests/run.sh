#!/usr/bin/env bash
# Builds nccl-tests without changes, with this library's header alone, and runs all its programs on a machine without a
# GPU: CUDA's runtime is played on the host (host_runtime.cc). Every result is checked (-c 1).
# Usage: bench/nccl_tests/run.sh [--hosts COUNT] NCCL_TESTS_FOLDER [BUILD_DIR]   (default build/release)
#   CUDA_HOME names the toolkit. hosts: the programs are built for MPI, and Open MPI starts them on so many hosts, which
#   are network namespaces of this machine (root; scripts/setup.sh --bench installs Open MPI).
set -euo pipefail
hosts=1
if [ "${1:-}" = --hosts ]; then
  hosts=${2:?how many hosts}
  shift 2
fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
tests=$(realpath "${1:?name a folder with the sources of nccl-tests}")
build=${2:-$root/build/release}
cuda=${CUDA_HOME:-/usr/local/cuda}
source "$root/bench/program.sh"
source "$root/bench/namespaces.sh"
library=$(library_of "$build")
[ -x "$cuda/bin/nvcc" ] || { echo "$cuda/bin/nvcc is missing: set CUDA_HOME" >&2; exit 2; }
work=$(mktemp -d)
trap 'drop_hosts; rm -rf "$work"' EXIT
mpi=() mpi_link=()
if [ "$hosts" -gt 1 ]; then
  command -v mpicxx.openmpi >/dev/null || { echo "Open MPI is not installed: scripts/setup.sh --bench" >&2; exit 2; }
  read -ra mpi <<< "-DMPI_SUPPORT -DOMPI_SKIP_MPICXX $(mpicxx.openmpi --showme:compile)"
  read -ra mpi_link <<< "$(mpicxx.openmpi --showme:link)"
  make_hosts "$hosts" "$work"
fi
names="all_reduce all_gather broadcast reduce_scatter reduce alltoall alltoallv scatter gather sendrecv hypercube"

ln -s "$library" "$work/libnccl.so.2"
c++ -std=c++20 -O2 -fPIC -shared -fvisibility=hidden -I"$cuda/include" "$here/host_runtime.cc" \
  -Wl,-soname,libcudart.so -o "$work/libcudart.so" -pthread
for name in $names common util; do
  echo "$cuda/bin/nvcc -std=c++17 -O2 ${mpi[*]} -DNCCL_OS_LINUX -I$root/include/nccl_shim -I$tests/src -I$tests/verifiable \
    -I$tests/os -gencode=arch=compute_90,code=sm_90 -c $tests/src/$name.cu -o $work/$name.o"
done | xargs -P "$(nproc)" -I{} sh -c '{}'
# The kernels that make and check the data, for the host. They divide by zero, which gives all ones on a device and ends a
# process of the host.
sed -E -e 's/\(void const\*\)&([A-Za-z0-9]+<[^;]*>);/host_runtime::kernel(\&\1);/' -e 's/cudaLaunchKernel\(/host_runtime::launch(/' \
  -e 's#= r/s < pn#= (s == 0 ? ~0u : r/s) < pn#' -e 's/<<<.*>>>\(\)/()/' \
  -e 's/asm volatile\("red\.global\.add\.u64.*$/__atomic_fetch_add(bad_elt_n, bad, __ATOMIC_RELAXED);/' \
  "$tests/verifiable/verifiable.cu" > "$work/verifiable.cc"
c++ -std=c++17 -O2 -w -include "$here/host_runtime.h" -D__launch_bounds__\(...\)= -I"$cuda/include" \
  -I"$root/include/nccl_shim" -I"$tests/verifiable" -DNCCL_OS_LINUX -c "$work/verifiable.cc" -o "$work/verifiable.o"
c++ -std=c++17 -O2 -c "$tests/src/timer.cc" -o "$work/timer.o"
c++ -std=c++17 -O2 -w -I"$tests/os" -DNCCL_OS_LINUX -c "$tests/os/linux.cc" -o "$work/os.o"
for name in $names; do
  c++ "$work/$name.o" "$work"/{common,util,verifiable,timer,os}.o -L"$work" -l:libnccl.so.2 -l:libcudart.so \
    "${mpi_link[@]}" -Wl,-rpath,"$work" -pthread -o "$work/${name}_perf"
done

runs=0 failed=0 checked=0
# A command line; the run fails when it ends with an error or finds a wrong value.
check_line() {
  runs=$((runs + 1))
  if ! timeout 600 "$@" > "$work/out" 2>&1 || ! grep -q '# Out of bounds values : 0 OK' "$work/out"; then
    failed=$((failed + 1))
    echo "FAILED: $*" >&2
    tail -n 20 "$work/out" >&2
  fi
  checked=$((checked + $(grep -cE '^ +[0-9]+ +[0-9]+ ' "$work/out" || true)))
}
# Arguments after the program's name.
check() {
  local name=$1
  shift
  check_line "$work/${name}_perf" -c 1 -w 1 -n 2 "$@"
}
# The same after the number of a host's processes.
check_on_hosts() {
  local each=$1 name=$2 list="" host line
  shift 2
  for ((host = 1; host <= hosts; host++)); do list+="${list:+,}10.78.0.$host:$each"; done
  open_mpi_on "$list" "$work"
  printf -v line '%q ' "${open_mpi[@]}" -n $((hosts * each)) --mca pml ob1 --mca btl self,vader,tcp \
    --mca btl_tcp_if_include eth0 "$work/${name}_perf" -c 1 -w 1 -n 2 "$@"
  check_line "$work/shell" 10.78.0.1 "$line"
}

version=$(sed -n 's/.*NCCL_TESTS_VERSION "\(.*\)"/\1/p' "$tests/src/common.h")
echo "| program of nccl-tests $version | runs | failed | lines of results |"
echo "|---|---|---|---|"
for name in $names; do
  runs=0 checked=0 before=$failed
  if [ "$hosts" -gt 1 ]; then
    for each in 1 2 4; do
      # A hypercube needs a power of two.
      [ "$name" = hypercube ] && (((hosts & (hosts - 1)) != 0)) && continue
      check_on_hosts "$each" "$name" -b 8 -e 1M -f 8 -d all -o all
      check_on_hosts "$each" "$name" -b 4M -e 4M -R 1
      check_on_hosts "$each" "$name" -t 2 -b 1000 -e 100000 -f 10
    done
    echo "| ${name}_perf | $runs | $((failed - before)) | $checked |"
    continue
  fi
  for ranks in 1 2 4 8; do
    # A hypercube needs two ranks, and an order of its rounds: in one group, as with -g and -m, no order is promised.
    if [ "$name" = hypercube ]; then
      [ "$ranks" = 1 ] || check "$name" -t "$ranks" -b 8 -e 1M -f 8 -d all
    else
      check "$name" -g "$ranks" -b 8 -e 1M -f 8 -d all -o all
      check "$name" -g "$ranks" -b 256K -e 256K -R 2 -p 1
      if [ "$ranks" -ge 4 ]; then check "$name" -t 2 -g $((ranks / 2)) -b 64 -e 4M -f 16 -m 3; fi
    fi
    [ "$name $ranks" = "hypercube 1" ] && continue
    check "$name" -t "$ranks" -b 4 -e 4M -f 8
    check "$name" -t "$ranks" -b 1000 -e 100000 -f 10 -z 1 -R 1
  done
  echo "| ${name}_perf | $runs | $((failed - before)) | $checked |"
done
[ "$failed" = 0 ]
