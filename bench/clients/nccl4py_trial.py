"""What the bindings of nccl4py offer, on host memory, checked. The library is preloaded by the caller:
LD_PRELOAD=libsccl.so python3 nccl4py_trial.py [RANKS]"""
import ctypes
import sys

import numpy as np

import trial

COUNT, FLOAT, SUM, MAX = 100, 7, 0, 2


def checks(nccl, comm, rank, ranks):
    mine = np.full(COUNT, rank + 1, np.float32)
    part = np.zeros(COUNT, np.float32)
    everyone = np.zeros(COUNT * ranks, np.float32)
    other = np.zeros_like(everyone)
    a, b, c, d = (array.ctypes.data for array in (mine, part, everyone, other))
    # The calls with a configuration take one argument more; 0 is the plain call.
    for suffix, more in (("", ()), ("_config", (0,))):
        call = lambda name, *arguments: getattr(nccl, name + suffix)(*arguments, *more)
        call("all_reduce", a, b, COUNT, FLOAT, SUM, comm, 0)
        yield "all_reduce" + suffix, (part == ranks * (ranks + 1) / 2).all()
        call("reduce", a, b, COUNT, FLOAT, MAX, 0, comm, 0)
        yield "reduce" + suffix, rank != 0 or (part == ranks).all()
        call("broadcast", a, b, COUNT, FLOAT, 1, comm, 0)
        yield "broadcast" + suffix, (part == 2).all()
        call("all_gather", a, c, COUNT, FLOAT, comm, 0)
        yield "all_gather" + suffix, (everyone == np.repeat(np.arange(ranks) + 1, COUNT)).all()
        call("reduce_scatter", c, b, COUNT, FLOAT, SUM, comm, 0)
        yield "reduce_scatter" + suffix, (part == ranks * (rank + 1)).all()
        call("allto_all", c, d, COUNT, FLOAT, comm, 0)
        yield "allto_all" + suffix, (other == rank + 1).all()
        call("gather", a, d, COUNT, FLOAT, 0, comm, 0)
        call("scatter", d, b, COUNT, FLOAT, 0, comm, 0)
        yield "gather, scatter" + suffix, (part == rank + 1).all()
    nccl.bcast(b, COUNT, FLOAT, 1, comm, 0)
    yield "bcast", (part == 2).all()
    nccl.group_start()
    nccl.send(a, COUNT, FLOAT, (rank + 1) % ranks, comm, 0)
    nccl.recv(b, COUNT, FLOAT, (rank - 1) % ranks, comm, 0)
    nccl.group_end()
    yield "send, recv, group", (part == (rank - 1) % ranks + 1).all()
    yield "comm_count, comm_user_rank", (nccl.comm_count(comm), nccl.comm_user_rank(comm)) == (ranks, rank)
    yield "comm_get_async_error", nccl.comm_get_async_error(comm) == 0
    memory = nccl.mem_alloc(4096)
    nccl.comm_deregister(comm, nccl.comm_register(comm, memory, 4096))
    window = nccl.comm_window_register(comm, memory, 4096, 1)
    yield "window", not window or nccl.win_get_user_ptr(comm, window) == memory
    if window:
        nccl.comm_window_deregister(comm, window)
    nccl.mem_free(memory)
    scaled = np.array([3.0], np.float32)
    operation = nccl.red_op_create_pre_mul_sum(scaled.ctypes.data, FLOAT, 1, comm)
    nccl.all_reduce(a, b, COUNT, FLOAT, operation, comm, 0)
    nccl.red_op_destroy(operation, comm)
    yield "red_op_create_pre_mul_sum", (part == 3 * ranks * (ranks + 1) / 2).all()
    split = nccl.comm_split(comm, rank % 2, rank, 0)
    yield "comm_split", nccl.comm_count(split) == len(range(rank % 2, ranks, 2))
    nccl.comm_destroy(split)
    nccl.comm_finalize(comm)


def rank_main(rank, ranks, raw_id, answers):
    from nccl.bindings import nccl

    unique_id = nccl.UniqueId()
    ctypes.memmove(unique_id.ptr, raw_id, 128)
    comm = nccl.comm_init_rank(ranks, unique_id.ptr, rank)
    found = list(checks(nccl, comm, rank, ranks))
    nccl.comm_destroy(comm)
    answers.put((rank, [name for name, good in found if not good], len(found)))


if __name__ == "__main__":
    from nccl.bindings import nccl

    own_id = nccl.get_unique_id()  # its memory goes with it
    sys.exit(trial.run(rank_main, ctypes.string_at(own_id.ptr, 128)))
