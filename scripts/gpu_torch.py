"""PyTorch's own ProcessGroupNCCL with the library preloaded; ranks share device 0. Started by gpu_check.py.

Each test prints "TORCH name ok", "TORCH name skip: reason" where this PyTorch cannot do it, or what was wrong. With
SCCL_TORCH_BACKEND=sccl (docs/pytorch.md) the same tests run on the host, which rehearses this script where there is no device."""
import os
import sys
import time

import torch
import torch.distributed as dist

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
backend = os.environ.get("SCCL_TORCH_BACKEND", "nccl")
rehearsal = backend != "nccl"
if backend == "sccl":
    import sccl.torch  # registers it
device = torch.device("cpu") if rehearsal else torch.device("cuda", 0)


class Skip(Exception):
    """What this PyTorch cannot do."""


def synchronize():
    if not rehearsal:
        torch.cuda.synchronize()


def equal(got, wanted):
    synchronize()
    if not torch.equal(got, wanted.to(got)):
        raise AssertionError(f"got {got.flatten()[:4].tolist()}, wanted {wanted.flatten()[:4].tolist()}")


def full(value, *shape):
    return torch.full(shape, float(value), device=device)


def all_reduce():
    for kind in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        data = full(rank + 1, 1000).to(kind)
        dist.all_reduce(data)
        equal(data, full(ranks * (ranks + 1) / 2, 1000))


def all_gather_into_tensor():
    out = full(-1, ranks * 500)
    dist.all_gather_into_tensor(out, full(rank, 500))
    equal(out, torch.arange(ranks, device=device).repeat_interleave(500).float())


def reduce_scatter_tensor():
    out = full(-1, 500)
    dist.reduce_scatter_tensor(out, full(rank + 1, ranks * 500))
    equal(out, full(ranks * (ranks + 1) / 2, 500))


def broadcast():
    data = full(rank, 777)
    dist.broadcast(data, src=1)
    equal(data, full(1, 777))


def all_to_all_single():
    out = full(-1, ranks * 64)
    dist.all_to_all_single(out, full(rank, ranks * 64))
    equal(out, torch.arange(ranks, device=device).repeat_interleave(64).float())


def send_recv():
    data = full(rank, 100000)
    if rank == 0:
        dist.send(data, 1)
    elif rank == 1:
        dist.recv(data, 0)
        equal(data, full(0, 100000))
    synchronize()


def small_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)).to(device)


def batch(step, of_rank):
    torch.manual_seed(100 * step + of_rank)
    return torch.randn(32, 64).to(device)


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(5):
        optimizer.zero_grad()
        model(batch(step, rank)).square().mean().backward()
        optimizer.step()


def ddp():
    model = torch.nn.parallel.DistributedDataParallel(small_model(), device_ids=None if rehearsal else [0])
    train(model)
    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    theirs = mine.clone()
    dist.broadcast(theirs, src=0)
    equal(mine, theirs)


def fsdp():
    """Sharded parameters end as those of one process that trains on all ranks' batches."""
    try:
        from torch.distributed.fsdp import FullyShardedDataParallel
    except Exception as error:  # PyTorch 1.13 with Python 3.11: a ValueError
        raise Skip(f"FullyShardedDataParallel cannot be imported: {' '.join(str(error).split())[:80]}") from error
    model = FullyShardedDataParallel(small_model(), device_id=None if rehearsal else 0)
    train(model)
    alone = small_model()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.01)
    for step in range(5):
        optimizer.zero_grad()
        sum(alone(batch(step, one)).square().mean() for one in range(ranks)).div(ranks).backward()
        optimizer.step()
    with FullyShardedDataParallel.summon_full_params(model):
        mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    wanted = torch.cat([parameter.detach().flatten() for parameter in alone.parameters()])
    synchronize()
    if not torch.allclose(mine, wanted, rtol=1e-4, atol=1e-6):
        raise AssertionError(f"parameters differ by {(mine - wanted).abs().max().item()}")


def split():
    """Groups of a part of the ranks, in use beside the whole; PyTorch splits the communicator where it can."""
    halves = [dist.new_group([one for one in range(ranks) if one % 2 == part]) for part in range(2)]
    mine = [one for one in range(ranks) if one % 2 == rank % 2]
    for _ in range(3):
        data, both = full(rank + 1, 1000), full(rank + 1, 1000)
        dist.all_reduce(data, group=halves[rank % 2])
        dist.all_reduce(both)
        equal(data, full(sum(one + 1 for one in mine), 1000))
        equal(both, full(ranks * (ranks + 1) / 2, 1000))


def graph():
    if rehearsal:
        raise Skip("graphs need a device")
    data = full(1, 4096)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, stream=stream):
            dist.all_reduce(data)
        for _ in range(3):
            captured.replay()
    torch.cuda.synchronize()
    equal(data, full(ranks ** 3, 4096))


def abort():
    """A call that waits for a rank that does not come is aborted, and the process goes on. Must be the last."""
    group = dist.distributed_c10d._get_default_group()
    backend_of = getattr(group, "_get_backend", None)
    target = backend_of(device) if backend_of else group
    end = getattr(target, "abort", None) or getattr(target, "_abort", None)
    if end is None:
        raise Skip(f"torch {torch.__version__} has no abort of a process group")
    dist.barrier()
    data = full(1, 1000)
    if rank == 0:
        dist.all_reduce(data, async_op=True)
        time.sleep(0.5)
    end()
    synchronize()


TESTS = (all_reduce, all_gather_into_tensor, reduce_scatter_tensor, broadcast, all_to_all_single, send_recv, ddp, fsdp, split, graph, abort)


def main():
    if not rehearsal:
        torch.cuda.set_device(0)
    dist.init_process_group(backend)
    good, aborted = True, False
    for test in TESTS:
        try:
            test()
            aborted = aborted or test is abort
            verdict = "ok"
        except Skip as reason:
            verdict = f"skip: {reason}"
        except Exception as error:  # the other tests still run
            good = False
            verdict = " ".join(repr(error).split())[:300]
        print(f"TORCH {test.__name__} {verdict}", flush=True)
    if not aborted:
        dist.destroy_process_group()
    print(f"TORCH done {'ok' if good else 'failed'}", flush=True)
    sys.stdout.flush()
    os._exit(0 if good else 1)  # nothing is left to be torn down behind an abort


if __name__ == "__main__":
    main()
