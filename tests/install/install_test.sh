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
