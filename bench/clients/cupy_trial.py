"""Everything that cupy.cuda.nccl offers, on host memory, checked. The library is preloaded by the caller:
LD_PRELOAD=libsccl.so python3 cupy_trial.py [RANKS]"""
import sys

import numpy as np

import trial

COUNT = 1000


def rank_main(rank, ranks, unique_id, answers):
    from cupy.cuda import nccl

    comm = nccl.NcclCommunicator(ranks, unique_id, rank)
    mine = np.full(COUNT, rank + 1, np.float32)
    other = np.zeros_like(mine)
    everyone = np.zeros(COUNT * ranks, np.float32)
    address = lambda array: array.ctypes.data
    right = {}
    comm.allReduce(address(mine), address(other), COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, 0)
    right["allReduce"] = (other == ranks * (ranks + 1) / 2).all()
    comm.reduce(address(mine), address(other), COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_MAX, 0, 0)
    right["reduce"] = rank != 0 or (other == ranks).all()
    comm.allGather(address(mine), address(everyone), COUNT, nccl.NCCL_FLOAT32, 0)
    right["allGather"] = (everyone == np.repeat(np.arange(ranks) + 1, COUNT)).all()
    comm.reduceScatter(address(everyone), address(other), COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, 0)
    right["reduceScatter"] = (other == ranks * (rank + 1)).all()
    comm.broadcast(address(mine), address(other), COUNT, nccl.NCCL_FLOAT32, ranks - 1, 0)
    right["broadcast"] = (other == ranks).all()
    comm.bcast(address(other), COUNT, nccl.NCCL_FLOAT32, 0, 0)
    right["bcast"] = (other == ranks).all()
    nccl.groupStart()
    comm.send(address(mine), COUNT, nccl.NCCL_FLOAT32, (rank + 1) % ranks, 0)
    comm.recv(address(other), COUNT, nccl.NCCL_FLOAT32, (rank - 1) % ranks, 0)
    nccl.groupEnd()
    right["send, recv, group"] = (other == (rank - 1) % ranks + 1).all()
    if hasattr(comm, "commSplit"):
        part = comm.commSplit(rank % 2, rank, nccl.NcclConfig())
        right["commSplit"] = part.size() == len(range(rank % 2, ranks, 2))
        part.destroy()
    comm.check_async_error()
    right["size, rank_id"] = comm.size() == ranks and comm.rank_id() == rank
    comm.destroy()
    answers.put((rank, [name for name, good in right.items() if not good], len(right)))


if __name__ == "__main__":
    from cupy.cuda import nccl

    sys.exit(trial.run(rank_main, nccl.get_unique_id()))
