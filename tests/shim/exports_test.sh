#!/usr/bin/env bash
# The dynamic symbols are exactly NCCL 2.32.3's: nccl names weak, pnccl names strong, unversioned, nothing else.
set -euo pipefail
library=$1 record=$2 sanitizers=$3
failed=0
symbols=$(nm -D --defined-only "$library" | awk '{print $2, $3}' | sort -k2)
# A sanitizer adds symbols of its own.
[ -z "$sanitizers" ] || symbols=$(grep -E ' p?nccl' <<<"$symbols")
diff <(echo "$symbols") "$record" || { echo "exports differ (< ours, > record)"; failed=1; }
dynamic=$(readelf -d "$library")
grep -q 'soname: \[libnccl.so.2\]' <<<"$dynamic" || { echo "SONAME is not libnccl.so.2"; failed=1; }
grep -q NODELETE <<<"$dynamic" || { echo "the library can be unloaded"; failed=1; }
if [ -z "$sanitizers" ]; then
  extra=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic" | grep -vE '^(libc|libm|libdl|librt|libpthread)\.so\.|^ld-linux' || true)
  [ -z "$extra" ] || { echo "needs more than libc: $extra"; failed=1; }
fi
if readelf -V "$library" | grep -q 'Version definition'; then echo "symbols carry versions"; failed=1; fi
exit $failed
