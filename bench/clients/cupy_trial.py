"""Everything that cupy.cuda.nccl offers, on host memory, checked. The library is preloaded by the caller:
LD_PRELOAD=libsccl.so python3 cupy_trial.py [RANKS]"""
import multiprocessing
import sys

import numpy as np

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


def main():
    from cupy.cuda import nccl

    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    multiprocessing.set_start_method("spawn")
    answers = multiprocessing.Queue()
    arguments = (nccl.get_unique_id(), answers)
    processes = [multiprocessing.Process(target=rank_main, args=(rank, ranks, *arguments)) for rank in range(ranks)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    wrong = [f"rank {rank}: {name}" for rank, names, _ in found for name in names]
    print(f"{ranks} ranks, {sum(count for _, _, count in found)} checks, wrong: {', '.join(wrong) or 'none'}")
    return 1 if wrong or any(process.exitcode for process in processes) else 0


if __name__ == "__main__":
    sys.exit(main())
