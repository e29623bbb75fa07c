"""Runs a function as several ranks in processes of their own, and brings their results or errors back."""
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from datetime import timedelta


def _enter(function, rank, ranks, store, results, ready, timeout, place, arguments):
    if place:
        place.enter()
    import torch.distributed as dist
    import sccl.torch  # noqa: F401  (registers the backend)
    import torch
    torch.set_num_threads(1)
    outcome = ("lost", "")
    try:
        ready.wait(100)  # on a busy machine imports end seconds apart, and `timeout` may be short
        if timeout is not None:
            dist.init_process_group("sccl", init_method=store, rank=rank, world_size=ranks,
                                    timeout=timedelta(seconds=timeout))
        outcome = ("returned", function(rank, ranks, *arguments))
        if timeout is not None and dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()
    except BaseException as error:  # noqa: B902  (whatever it is, the test wants to see it)
        if outcome[0] != "returned":
            outcome = ("raised", f"{type(error).__name__}: {error}")
            if os.environ.get("SCCL_TEST_TRACE"):
                traceback.print_exc()
    results.put((rank, outcome, time.monotonic()))
    results.close()
    results.join_thread()


def run(function, ranks, *arguments, timeout=60, patience=120, present=None, hosts=None, host_of=None,
        meanwhile=None):
    """A list of (kind, value) by rank: "returned", "raised" with the text, "killed" or "hung". With `timeout` None the
    function makes its group itself. Only the ranks of `present` are started. With `hosts` (hosts.Hosts) rank r is started on
    host host_of[r]. `meanwhile` is called with the processes by rank, until it returns True."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        store = hosts.store() if hosts else "file://" + os.path.join(folder, "store")
        present = list(present or range(ranks))
        ready = context.Barrier(len(present))
        started = {rank: context.Process(target=_enter, args=(function, rank, ranks, store, results, ready, timeout,
                                                              hosts and hosts.place(host_of[rank]), arguments))
                   for rank in present}
        for process in started.values():
            process.start()
        outcomes = {}
        deadline = time.monotonic() + patience
        while len(outcomes) < len(started) and time.monotonic() < deadline:
            if meanwhile and meanwhile(started):
                meanwhile = None
            try:
                rank, outcome, _ = results.get(timeout=0.2)
                outcomes[rank] = outcome
            except Exception:  # noqa: B902  (queue.Empty of the context)
                for rank, process in started.items():
                    if process.exitcode not in (None, 0) and rank not in outcomes:
                        outcomes[rank] = ("killed", process.exitcode)
        for rank, process in started.items():
            process.join(10 if rank in outcomes else 0)
            if process.is_alive():
                outcomes[rank] = ("hung", outcomes.get(rank))
                os.kill(process.pid, signal.SIGKILL)
                process.join()
        return [outcomes.get(rank, ("hung", None)) if rank in started else ("absent", None) for rank in range(ranks)]


def values(outcomes):
    """Of ranks that all returned; raises AssertionError with every rank's outcome otherwise."""
    assert all(kind == "returned" for kind, _ in outcomes), outcomes
    return [value for _, value in outcomes]


def main(namespace):
    """Runs the functions named test_*, or those given as arguments."""
    wanted = sys.argv[1:]
    failed = []
    for name, function in list(namespace.items()):
        if not name.startswith("test_") or (wanted and name not in wanted):
            continue
        began = time.monotonic()
        try:
            function()
            print(f"ok     {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as error:  # noqa: B902
            failed.append(name)
            print(f"FAILED {name}: {error}", flush=True)
            traceback.print_exc()
    sys.exit(1 if failed else 0)
