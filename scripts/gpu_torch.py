"""PyTorch's own ProcessGroupNCCL with the library preloaded; ranks share device 0. Started by gpu_check.py."""
import os
import sys

import torch
import torch.distributed as dist

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(0)
dist.init_process_group("nccl")
device = torch.device("cuda", 0)


def equal(got, wanted):
    torch.cuda.synchronize()
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
    torch.cuda.synchronize()


def ddp():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)).to(device)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(5):
        torch.manual_seed(100 * step + rank)
        optimizer.zero_grad()
        model(torch.randn(32, 64, device=device)).square().mean().backward()
        optimizer.step()
    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    theirs = mine.clone()
    dist.broadcast(theirs, src=0)
    equal(mine, theirs)


def graph():
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


good = True
for test in (all_reduce, all_gather_into_tensor, reduce_scatter_tensor, broadcast, all_to_all_single, send_recv, ddp, graph):
    try:
        test()
        print(f"TORCH {test.__name__} ok", flush=True)
    except Exception as error:  # the other tests still run
        good = False
        print(f"TORCH {test.__name__} {' '.join(repr(error).split())[:300]}", flush=True)
dist.destroy_process_group()
print(f"TORCH done {'ok' if good else 'failed'}", flush=True)
sys.exit(0 if good else 1)
