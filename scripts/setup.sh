#!/usr/bin/env bash
# Installs what building and testing need (Debian 12, Ubuntu). --bench adds the MPI libraries of bench/host and ucx_perftest,
# --fuzz what the preset fuzz needs, --hip compilers and headers for AMD's devices, --cuda NVRTC 12, which still compiles
# for sm_70, and a disassembler, from PyPI (the tests skip what is missing).
set -euo pipefail

packages=(cmake ninja-build g++ ccache pkg-config git spin libspdlog-dev libfmt-dev libhwloc-dev libz3-dev
  nlohmann-json3-dev libcli11-dev libpugixml-dev libboost-dev libcadical-dev libsvm-dev libucx-dev libhwy-dev liblemon-dev catch2 python3
  xz-utils iproute2 python3-numpy python3-sklearn clang-format-14
  python3-torch libtorch-dev pybind11-dev python3-dev)
if [ "${1:-}" = --bench ]; then
  packages+=(openmpi-bin libopenmpi-dev mpich libmpich-dev ucx-utils)
elif [ "${1:-}" = --fuzz ]; then
  packages+=(clang libclang-rt-dev)
elif [ "${1:-}" = --hip ]; then
  packages+=(clang-19 lld-19 libamdhip64-5 libamdhip64-dev libhiprtc-builtins5)
elif [ "${1:-}" = --cuda ]; then
  tools=${XDG_CACHE_HOME:-$HOME/.cache}/sccl/cuda-tools
  [ -f "$tools/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" ] && ls "$tools"/nvidia/*/bin/nvdisasm >/dev/null 2>&1 && exit 0
  python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)
elif [ $# -gt 0 ]; then
  echo "usage: scripts/setup.sh [--bench | --fuzz | --hip | --cuda]" >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
install_tools() {
  [ -n "${tools:-}" ] || return 0
  mkdir -p "$tools"
  python3 -m pip install -q --no-deps --upgrade --target "$tools" nvidia-cuda-nvrtc-cu12 nvidia-cuda-nvdisasm
}
[ ${#missing[@]} -gt 0 ] || { install_tools; exit 0; }

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "run as root, or install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { "${as_root[@]}" apt-get update -q && "${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "apt-get could not install: ${missing[*]}" >&2
  exit 1
fi
install_tools
