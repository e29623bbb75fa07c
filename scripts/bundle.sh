#!/usr/bin/env bash
# Packs the library, the command and the checks for a machine without package sources into one folder and an archive:
#   libsccl.so, libnccl.so.2, sccl-kernels/ (compiled ahead where NVRTC is here), bin/sccl, lib/ (what these need beyond
#   glibc), gpu-check.sh and what it runs.
# Usage: scripts/bundle.sh [BUILD_DIR] [OUTPUT_DIR]      ARCHS=sm_90,sm_100 chooses the kernels' architectures; compute_80
# is PTX, which the driver compiles for devices that are newer. sm_70 needs NVRTC 12 (scripts/setup.sh --cuda)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
out=${2:-build/sccl-bundle}
archs=${ARCHS:-sm_70,sm_80,sm_90,sm_100,sm_120,compute_80}
most_kilobytes=$((160 * 1024))

library=$build/src/shim/libsccl.so
command=$build/src/tools/sccl
for file in "$library" "$command"; do
  [ -f "$file" ] || { echo "bundle: $file is not there: build it first (cmake --build $build), or name the build folder" >&2; exit 1; }
done

rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/scripts"
cp "$library" "$out/libsccl.so"
ln -s libsccl.so "$out/libnccl.so.2"
cp "$command" "$out/bin/sccl.real"
# Everything but glibc, which every machine has its own of; the newest version needed is told below.
ldd "$command" | awk '$3 ~ /^\// {print $3}' |
  grep -vE '/(ld-linux[^/]*|libc|libm|libdl|libpthread|librt|libresolv)\.so|libnccl\.so|libsccl\.so' |
  while read -r needed; do cp -L "$needed" "$out/lib/"; done
cat >"$out/bin/sccl" <<'SH'
#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
LD_LIBRARY_PATH="$here:$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/bin/sccl.real" "$@"
SH
chmod +x "$out/bin/sccl"
cp scripts/gpu-check.sh scripts/gpu_*.py scripts/gpu_*.cu "$out/scripts/"

if "$out/bin/sccl" kernels --arch "$archs" --out "$out/sccl-kernels" >"$out/kernels.txt" 2>&1; then
  tail -n 1 "$out/kernels.txt"
else
  echo "bundle: not all kernels were compiled ahead (kernels.txt); the rest is compiled where it runs:"
  tail -n 3 "$out/kernels.txt"
fi
[ -d "$out/sccl-kernels" ] && chmod 755 "$out/sccl-kernels"
strip --strip-unneeded "$out/libsccl.so" "$out/bin/sccl.real" "$out"/lib/*.so* 2>/dev/null || true

echo "needs glibc $(objdump -T "$out/libsccl.so" "$out/bin/sccl.real" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1 | cut -d_ -f2)"
size=$(du -sk "$out" | cut -f1)
echo "bundle: $out, $((size / 1024)) MB"
[ "$size" -le "$most_kilobytes" ] || { echo "bundle: more than 160 MB: name fewer architectures (ARCHS=sm_90)" >&2; exit 1; }
tar -C "$(dirname "$out")" -czf "$out.tar.gz" "$(basename "$out")"
echo "bundle: $out.tar.gz, $(($(stat -c %s "$out.tar.gz") / 1024 / 1024)) MB"
