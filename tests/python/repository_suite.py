"""A file of tests from PyTorch's repository, with this backend in gloo's place.

Usage: repository_suite.py PATH/test/distributed/test_c10d_gloo.py [PATTERN ...]
Processes are forked from one that has imported everything. `--gloo` before the path runs the tests with gloo itself. Left out
are tests of what only gloo's own class has; each with its reason below."""
import fnmatch
import importlib.util
import os
import sys
import unittest

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch.distributed  # noqa: E402,F401

import gloos_place  # noqa: E402

GLOOS_OWN = {
    "test_set_gloo_pg_timeout": "calls a method of ProcessGroupGloo's Python class",
    "test_gloo_backend_cpu_module": "asks the backend for one of gloo's devices",
    "test_gloo_backend_cpu_module_grad_is_view": "asks the backend for one of gloo's devices",
    "test_broadcast_coalesced_gloo_cpu": "asks the backend for one of gloo's devices",
    "test_init_process_group_for_all_backends": "PyTorch calls every backend of others \"custom\"",
    "test_all_to_all_single": "wants tensors that are not contiguous refused; here they are served",
    "test_allgather_checks": "wants outputs of different sizes refused; here they are served",
}


def cases_of(path, patterns, real):
    name = os.path.basename(path)[:-3]
    sys.path.insert(0, os.path.dirname(path))
    sys.argv = [path]
    specification = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    from torch.testing._internal.common_distributed import MultiProcessTestCase
    MultiProcessTestCase._spawn_processes = gloos_place.fork_processes
    cases = []
    for kind in vars(module).values():
        if isinstance(kind, type) and issubclass(kind, unittest.TestCase) and kind.__module__ == name:
            for case in unittest.TestLoader().loadTestsFromTestCase(kind):
                wanted = any(fnmatch.fnmatch(case.id(), f"*{pattern}*") for pattern in patterns)
                if wanted and (real or case._testMethodName not in GLOOS_OWN):
                    cases.append(case)
    return cases


def main():
    arguments = sys.argv[1:]
    real = arguments[0] == "--gloo"
    if real:
        arguments.pop(0)
    else:
        gloos_place.take()
    path = os.path.abspath(arguments[0])
    cases = cases_of(path, arguments[1:] or ["*"], real)
    sys.exit(0 if gloos_place.run(f"{os.path.basename(path)}, {'gloo' if real else 'sccl'}", cases) else 1)


if __name__ == "__main__":
    main()
