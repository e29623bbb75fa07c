"""Puts the backend in gloo's place in this process, and runs PyTorch's tests there."""
import multiprocessing
import time
import unittest

import torch
import torch.distributed as dist


def take():
    """The backend is registered under gloo's name, and made where a program makes a ProcessGroupGloo itself."""
    import sccl.torch
    theirs = dist.ProcessGroupGloo

    class Anything(type):
        def __instancecheck__(cls, instance):
            return True

    class ProcessGroupGloo(metaclass=Anything):
        def __new__(cls, store, rank, size, options=None, timeout=None, **_):
            given = getattr(options, "_timeout", timeout)
            seconds = given.total_seconds() if given else 30.0
            return sccl.torch._module.create(store, rank, size, seconds, "gloo")

    for name in ("_Options", "Options", "create_device", "create_default_device"):
        if hasattr(theirs, name):
            kept = getattr(theirs, name)
            setattr(ProcessGroupGloo, name, kept if isinstance(kept, type) else staticmethod(kept))
    dist.ProcessGroupGloo = dist.distributed_c10d.ProcessGroupGloo = ProcessGroupGloo
    dist.Backend._plugins.pop("GLOO", None)
    try:
        sccl.torch.register("gloo", devices=["cpu"])
    except AssertionError:  # versions that know gloo by its class alone take the one above
        pass


def fork_processes(case):
    case._start_processes(multiprocessing.get_context("fork").Process)


class _Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def run(title, cases):
    """Runs the cases, prints a line for each that passed or failed, and the sums. Returns whether none failed."""
    result = _Result()
    failed = 0
    began = time.monotonic()
    for case in cases:
        name = f"{type(case).__name__}.{case._testMethodName}"
        before = result.passed, len(result.skipped)
        start = time.monotonic()
        case.run(result)
        if result.passed > before[0]:
            print(f"passed {name} ({time.monotonic() - start:.1f} s)", flush=True)
        elif len(result.skipped) == before[1]:
            failed += 1
            _, text = (result.errors + result.failures)[-1]
            print(f"FAILED {name}\n    " + "\n    ".join(text.strip().splitlines()[-12:]), flush=True)
    print(f"{title}, PyTorch {torch.__version__}: {result.passed} passed, {failed} failed, {len(result.skipped)} skipped of "
          f"{len(cases)} in {time.monotonic() - began:.0f} s", flush=True)
    return not failed
