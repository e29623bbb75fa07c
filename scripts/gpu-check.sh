#!/usr/bin/env bash
# Everything that needs a GPU, in one go: the list of tests, then the benchmark. From a built tree or from a bundle
# (scripts/bundle.sh). Writes gpu-NAME.md and gpu-NAME.json into docs/results, or into the folder that is given.
# Usage: scripts/gpu-check.sh [--quick] [--results DIR] [--only PART,...]   (gpu_check.py --help names the parts)
# Environment: SCCL_LIB (libsccl.so), NCCL_LIB (the original, to compare with), NCCL_TESTS_DIR, PYTHON.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
command -v "$python" >/dev/null || { echo "gpu-check: no $python: set PYTHON" >&2; exit 1; }

if [ -z "${SCCL_LIB:-}" ]; then
  for candidate in "$here/libsccl.so" "$here"/build/release/src/shim/libsccl.so "$here"/build/src/shim/libsccl.so; do
    [ -f "$candidate" ] && { SCCL_LIB=$candidate; break; }
  done
fi
[ -f "${SCCL_LIB:-}" ] || { echo "gpu-check: no libsccl.so: build the tree, or set SCCL_LIB" >&2; exit 1; }
export SCCL_LIB
results=$here/docs/results
[ -d "$here/docs" ] || results=$here/results
exec "$python" "$here/scripts/gpu_check.py" --results "$results" "$@"
