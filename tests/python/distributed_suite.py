"""PyTorch's own distributed tests, as they lie in its package, over this backend.

Usage: distributed_suite.py NAME RANKS [PATTERN ...]
NAME is `sccl`, or `gloo`: then the backend is registered in gloo's place and under its name, so that the tests which ask
for gloo run as well; `real-gloo` runs them with gloo itself. Processes are forked from one that has imported everything,
which is the only difference to PyTorch's own driver. Prints a line for each test that did not pass, and the sums."""
import fnmatch
import os
import sys
import tempfile
import unittest

NAME = sys.argv[1]
RANKS = sys.argv[2]
PATTERNS = sys.argv[3:] or ["*"]

os.environ.setdefault("OMP_NUM_THREADS", "1")
scratch = tempfile.TemporaryDirectory()
os.makedirs(os.path.join(scratch.name, "barrier"))
os.makedirs(os.path.join(scratch.name, "test_dir"))
os.makedirs(os.path.join(scratch.name, "init_dir"))
os.environ.update(BACKEND="gloo" if NAME == "real-gloo" else NAME, WORLD_SIZE=RANKS, TEMP_DIR=scratch.name,
                  INIT_METHOD=f"file://{scratch.name}/init_dir/shared_init_file")

import torch  # noqa: E402
import torch.distributed  # noqa: E402

import gloos_place  # noqa: E402

if NAME == "gloo":
    gloos_place.take()
elif NAME != "real-gloo":
    import sccl.torch  # noqa: E402,F401

from torch.testing._internal import common_distributed  # noqa: E402
if NAME == "sccl":
    for feature in ("ddp", "plugin"):
        common_distributed.DistTestCases.backend_feature[feature].add("sccl")
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402

torch.set_num_threads(1)

# PyTorch's process group calls every backend that is not its own "custom", where the test wants the backend's name.
NOT_FOR_OTHERS = {"test_ddp_logging_data_cpu"} if NAME != "real-gloo" else set()


class Suite(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        gloos_place.fork_processes(self)


def main():
    names = [name for name in unittest.TestLoader().getTestCaseNames(Suite)
             if name not in NOT_FOR_OTHERS and any(fnmatch.fnmatch(name, pattern) for pattern in PATTERNS)]
    Suite.setUpClass()
    sys.exit(0 if gloos_place.run(f"{NAME}, {RANKS} ranks", [Suite(name) for name in names]) else 1)


if __name__ == "__main__":
    main()
