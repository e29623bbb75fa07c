"""PyTorch's own distributed tests, as they lie in its package, over this backend.

Usage: distributed_suite.py NAME RANKS [PATTERN ...]
NAME is `sccl`, or `gloo`: then the backend is registered in gloo's place and under its name, so that the tests which ask
for gloo run as well; `real-gloo` runs them with gloo itself. Processes are forked from one that has imported everything,
which is the only difference to PyTorch's own driver. Prints a line for each test that did not pass, and the sums."""
import fnmatch
import multiprocessing
import os
import sys
import tempfile
import time
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
import torch.distributed as dist  # noqa: E402

if NAME != "real-gloo":
    import sccl.torch  # noqa: E402
if NAME == "gloo":
    dist.Backend._plugins.pop("GLOO", None)
    sccl.torch.register("gloo", devices=["cpu"])

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
        self._start_processes(multiprocessing.get_context("fork").Process)


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(test)


def main():
    names = [name for name in unittest.TestLoader().getTestCaseNames(Suite)
             if name not in NOT_FOR_OTHERS and any(fnmatch.fnmatch(name, pattern) for pattern in PATTERNS)]
    result = Result()
    failed = 0
    began = time.monotonic()
    Suite.setUpClass()
    for name in names:
        before = len(result.passed), len(result.skipped)
        start = time.monotonic()
        Suite(name).run(result)
        if len(result.passed) > before[0]:
            print(f"passed {name} ({time.monotonic() - start:.1f} s)", flush=True)
        elif len(result.skipped) == before[1]:
            failed += 1
            _, text = (result.errors + result.failures)[-1]
            print(f"FAILED {name}\n    " + "\n    ".join(text.strip().splitlines()[-12:]), flush=True)
    print(f"{NAME}, {RANKS} ranks, PyTorch {torch.__version__}: {len(result.passed)} passed, {failed} failed, "
          f"{len(result.skipped)} skipped of {len(names)} in {time.monotonic() - began:.0f} s", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
