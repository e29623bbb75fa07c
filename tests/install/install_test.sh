#!/usr/bin/env bash
# Installs the build tree into a temporary folder and uses it as a stranger would.
set -euo pipefail
build=$1 cmake=$2 compiler=$3
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
"$cmake" --install "$build" --prefix "$prefix" >/dev/null

library=$(find "$prefix" -name libsccl.so)
[ -f "$library" ] || { echo "libsccl.so is not installed" >&2; exit 1; }
link=$(find "$prefix" -path '*/nccl/libnccl.so.2')
[ "$(readlink -f "$link")" = "$(readlink -f "$library")" ] || { echo "lib/nccl/libnccl.so.2 does not lead to it" >&2; exit 1; }

cat >"$prefix/client.c" <<'SOURCE'
#include <nccl.h>
#include <stdio.h>
int main(void) {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return 1;
  printf("%d\n", version);
  return version == NCCL_VERSION_CODE ? 0 : 1;
}
SOURCE
export PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name sccl.pc)")
# shellcheck disable=SC2046
"$compiler" "$prefix/client.c" $(pkg-config --cflags --libs sccl) -o "$prefix/client"
LD_LIBRARY_PATH=$(dirname "$link") "$prefix/client"

# Well-known machines never wait: the installed command finds the installed catalogue, and does without a damaged entry.
sccl=$prefix/bin/sccl
if [ -x "$sccl" ]; then
  export LD_LIBRARY_PATH=$(dirname "$link") SCCL_CACHE_DIR=$prefix/cache
  ask() { rm -rf "$prefix/cache"; "$sccl" synth --topo nvpairs4 --collective allgather --pareto --cache --budget 1 --json; }
  ask | grep -q '"source":"catalogue"' || { echo "the installed catalogue is not found" >&2; exit 1; }
  for entry in "$prefix"/share/sccl/catalogue/*-allgather-0.frontier; do echo damaged >"$entry"; done
  ask | grep -q '"source":"search"' || { echo "a damaged catalogue is not searched anew" >&2; exit 1; }
fi
