#!/usr/bin/env bash
# Each way of installing, into an empty place, and the demo from there. Usage: package_test.sh cmake|deb|wheel BUILD CMAKE PYTHON
set -euo pipefail
way=$1 build=$2 cmake=$3 python=$4
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# Nothing of the checkout may help.
unset SCCL_LIBRARY PYTHONPATH LD_LIBRARY_PATH LD_PRELOAD
export SCCL_CACHE_DIR=$place/cache
cd "$place"

demo() {  # the folder that holds the Python package; the file that must have served; options
  PYTHONPATH=$1 "$python" -m sccl demo --ranks 3 ${3:-} | tee "$place/said"
  grep -q "trained on 3 ranks through $(realpath "$2")" "$place/said" || { echo "the demo used another library than $2" >&2; exit 1; }
}

case $way in
  cmake)
    "$cmake" --install "$build" --prefix "$place/prefix" >/dev/null
    mkdir user
    cat >user/main.c <<'SOURCE'
#include <nccl.h>
#include <stdio.h>
int main(void) {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess && version == NCCL_VERSION_CODE ? 0 : 1;
}
SOURCE
    cat >user/CMakeLists.txt <<'SOURCE'
cmake_minimum_required(VERSION 3.20)
project(user C)
find_package(sccl REQUIRED)
add_executable(user main.c)
target_link_libraries(user PRIVATE sccl::sccl)
SOURCE
    "$cmake" -S user -B user/build -DCMAKE_PREFIX_PATH="$place/prefix" >/dev/null
    "$cmake" --build user/build >/dev/null
    user/build/user
    demo "$place/prefix/lib/python3/dist-packages" "$place/prefix/lib/libsccl.so" --no-torch
    ;;
  deb)
    command -v dpkg-deb >/dev/null || { echo "SKIPPED: dpkg-deb is missing"; exit 77; }
    (cd "$place" && "$(dirname "$cmake")/cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$place/package" >"$place/log" 2>&1) || { cat "$place/log" >&2; exit 1; }
    dpkg-deb --info "$place"/package/*.deb | grep -E '^ (Package|Version|Depends)'
    dpkg-deb -x "$place"/package/*.deb "$place/root"
    demo "$place/root/usr/lib/python3/dist-packages" "$place/root/usr/lib/libsccl.so" --no-torch
    ;;
  wheel)
    "$cmake" --install "$build" --prefix "$place/site/sccl" --component wheel >/dev/null
    [ -z "$(find "$place/site" -type l)" ] || { echo "a wheel cannot hold symbolic links" >&2; exit 1; }
    demo "$place/site" "$place/site/sccl/lib/nccl/libnccl.so.2"
    library=$(cd "$place/site" && "$python" -c 'import sccl; print(sccl.library_path())')
    [ "$library" = "$place/site/sccl/lib/libsccl.so" ] || { echo "library_path() is $library" >&2; exit 1; }
    eval "$(cd "$place/site" && "$python" -m sccl env)"
    "$python" -c 'import ctypes; ctypes.CDLL("libnccl.so.2").ncclGetVersion; print("preloaded")'
    unset LD_PRELOAD SCCL_LIBRARY
    cp -r "$place/site/sccl" "$place/bare" && rm "$place/bare/lib/libsccl.so"
    mkdir "$place/broken" && mv "$place/bare" "$place/broken/sccl"
    said=$(cd "$place/broken" && "$python" -m sccl env 2>&1) && { echo "a missing library was not noticed" >&2; exit 1; }
    [ "$(wc -l <<<"$said")" = 1 ] && grep -q SCCL_LIBRARY <<<"$said" || { echo "not one line with the remedy: $said" >&2; exit 1; }
    ;;
esac
