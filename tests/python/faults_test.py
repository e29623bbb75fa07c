"""What goes wrong ends soon, at every rank, with a text that names it."""
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import ranks as testing


def told(outcome, *parts):
    kind, text = outcome
    assert kind == "raised", outcome
    for part in parts:
        assert part in text, f"{part!r} is not in: {text}"


def different_shapes(rank, ranks):
    dist.all_reduce(torch.ones(2 + rank, 3))


def test_different_shapes_are_told_with_both():
    for rank, outcome in enumerate(testing.run(different_shapes, 2)):
        told(outcome, "all_reduce of float32 [2, 3]", "all_reduce of float32 [3, 3]", f"on rank {rank}")


def different_calls(rank, ranks):
    if rank == 0:
        dist.all_reduce(torch.ones(2))
    else:
        dist.broadcast(torch.ones(5), 0)


def test_different_calls_are_told_with_both():
    for outcome in testing.run(different_calls, 3):
        told(outcome, "all_reduce of float32 [2]", "broadcast of float32 [5]")


def killed(rank, ranks, call):
    dist.barrier()
    if rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    tensor = torch.ones(1000)
    began = time.monotonic()
    try:
        if call == "all_reduce":
            while True:
                dist.all_reduce(tensor)
        elif call == "recv":
            dist.recv(tensor, 1)
        elif call == "any":
            dist.recv(tensor)
        else:
            dist.all_reduce(tensor, async_op=True).wait()
    except RuntimeError as error:
        return str(error), time.monotonic() - began
    return "nothing was raised", 0


def test_a_killed_rank_is_named_by_every_survivor():
    for call in ("all_reduce", "async", "recv", "any"):
        outcomes = testing.run(killed, 3, call)
        assert outcomes[1][0] == "killed", outcomes
        for rank in (0, 2):
            text = outcomes[rank][1][0] if outcomes[rank][0] == "returned" else outcomes[rank][1]
            assert "rank 1" in str(text), outcomes


def late(rank, ranks):
    if rank == 0:
        try:
            dist.barrier()
        except RuntimeError as error:
            first = str(error)
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            return first, str(error)
    time.sleep(4)
    return None


def test_a_call_that_others_do_not_make_times_out_and_stops_the_group():
    kind, value = testing.run(late, 2, timeout=2)[0]
    assert kind == "returned", value
    for text in value:
        assert "Timed out waiting 2000ms for barrier" in text, text


def waits_briefly(rank, ranks):
    if rank == 0:
        work = dist.all_reduce(torch.ones(5), async_op=True)
        try:
            work.wait(timedelta(milliseconds=200))
        except RuntimeError as error:
            return str(error)
    time.sleep(2)
    return ""


def test_a_wait_with_a_timeout_ends():
    assert "Timed out waiting 200ms" in testing.run(waits_briefly, 2)[0][1]


def missing(rank, ranks):
    pass


def test_a_rank_that_never_comes_is_named():
    outcomes = testing.run(missing, 3, timeout=2, present=[0, 1])
    for rank in (0, 1):
        told(outcomes[rank], "rank 2 of 3 did not come", "Timed out")


def forked(rank, ranks):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(1))
            text = "the child's call returned"
        except RuntimeError as error:
            text = str(error)
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    text = os.read(read, 10_000).decode()
    os.waitpid(child, 0)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)  # the parent's group works on
    assert tensor.item() == ranks
    return text


def test_a_forked_child_is_told_that_the_group_is_its_parents():
    for text in testing.values(testing.run(forked, 2)):
        assert "forked" in text and "init_process_group" in text, text


def destroyed(rank, ranks):
    if rank == 0:
        work = dist.all_reduce(torch.ones(1000), async_op=True)
        dist.destroy_process_group()
        try:
            work.wait()
        except RuntimeError as error:
            return str(error)
        return "no error"
    time.sleep(5)
    return None


def test_work_of_a_destroyed_group_fails():
    kind, text = testing.run(destroyed, 2)[0]
    assert kind == "returned" and "destroyed" in text, text


def wrong_arguments(rank, ranks):
    texts = []
    meta = torch.empty(3, device="meta")
    from torch.distributed.distributed_c10d import _get_default_group
    group = _get_default_group()  # since 2.1 it asks no backend about such tensors; the backend itself is asked here
    backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    beyond = dist.BroadcastOptions()
    beyond.rootRank = ranks
    for call in (lambda: backend.allreduce([meta]),
                 lambda: dist.all_gather([torch.empty(3)], torch.empty(3)),
                 lambda: dist.all_reduce(torch.ones(3), op=dist.ReduceOp.BAND),
                 lambda: dist.all_to_all_single(torch.empty(ranks + 1), torch.empty(ranks + 1)),
                 lambda: backend.broadcast([torch.empty(1)], beyond)):
        try:
            call()
            texts.append("nothing was raised")
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            texts.append(str(error))
    return texts


def test_wrong_arguments_are_refused():
    for texts in testing.values(testing.run(wrong_arguments, 2)):
        assert all(text != "nothing was raised" for text in texts), texts
        assert "2 ranks" in texts[1], texts[1]
        assert "BAND is not defined for float32" in texts[2], texts[2]
        assert "invalid root rank: 2, ranks are 0 to 1" in texts[4], texts[4]


def test_a_library_that_is_not_found_is_one_line_with_the_remedy():
    environment = {**os.environ, "SCCL_LIBRARY": "/nowhere/libsccl.so"}
    done = subprocess.run([sys.executable, "-c", "import sccl.torch"], env=environment, capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode != 0 and "SCCL_LIBRARY" in last and "libsccl.so" in last, done.stderr


if __name__ == "__main__":
    testing.main(globals())
