#!/usr/bin/env bash
# The backend's tests with a PyTorch of PyPI, and PyTorch's own distributed tests over it. Some gigabytes are downloaded.
# Usage: scripts/torch_newest.sh [VERSION] [FOLDER]; the environment is kept in FOLDER (default ~/.cache/sccl/pypi-torch).
set -euo pipefail
version=${1:-} folder=${2:-$HOME/.cache/sccl/pypi-torch}
cd "$(dirname "$0")/.."
library=$PWD/build/release/src/shim/libsccl.so
[ -f "$library" ] || { echo "build the library first: cmake --preset release && cmake --build --preset release --target sccl" >&2; exit 1; }
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
"$folder/bin/pip" install -q "torch${version:+==$version}" numpy expecttest
export SCCL_LIBRARY=$library PYTHONPATH=$PWD/python OMP_NUM_THREADS=1
"$folder/bin/python" -m sccl build
failed=0
for test in collectives messages faults frameworks; do "$folder/bin/python" "tests/python/${test}_test.py" || failed=1; done
for ranks in 3 4; do
  for name in sccl gloo; do
    "$folder/bin/python" tests/python/distributed_suite.py "$name" "$ranks" 2>/dev/null | grep -E '^(FAILED|    |gloo,|sccl,)' || failed=1
  done
done
exit $failed
