#!/usr/bin/env bash
# Installs what building and testing need (Debian 12, Ubuntu). --bench adds the MPI libraries of bench/host,
# --fuzz what the preset fuzz needs, --hip compilers for AMD's devices (the tests skip them when they are missing).
set -euo pipefail

packages=(cmake ninja-build g++ ccache pkg-config git spin libspdlog-dev libfmt-dev libhwloc-dev libz3-dev
  nlohmann-json3-dev libcli11-dev libpugixml-dev libboost-dev libcadical-dev libsvm-dev libucx-dev libhwy-dev liblemon-dev catch2 python3
  xz-utils iproute2 python3-numpy python3-sklearn clang-format-14
  python3-torch libtorch-dev pybind11-dev python3-dev)
if [ "${1:-}" = --bench ]; then
  packages+=(openmpi-bin libopenmpi-dev mpich libmpich-dev)
elif [ "${1:-}" = --fuzz ]; then
  packages+=(clang libclang-rt-dev)
elif [ "${1:-}" = --hip ]; then
  packages+=(clang-19 lld-19 libamdhip64-5 libhiprtc-builtins5)
elif [ $# -gt 0 ]; then
  echo "usage: scripts/setup.sh [--bench | --fuzz | --hip]" >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

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
