#!/usr/bin/env python3
"""Data-parallel training on the CPU with PyTorch's DistributedDataParallel: gloo beside sccl.

    torchrun --nproc-per-node 4 examples/ddp_cpu.py            # or without torchrun: examples/ddp_cpu.py --ranks 4

Every rank trains the same network on its share of handwritten digits, first over gloo, then over sccl. Both must end
with the same test accuracy; printed are accuracy and seconds of each."""
import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch  # noqa: E402  (the thread limit must stand first)
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing  # noqa: E402

import sccl.torch  # noqa: E402, F401  (registers the backend)

BATCH = 240


def digits():
    """The digits of scikit-learn, or a set of the same shape that any machine can make."""
    try:
        from sklearn.datasets import load_digits
        data, labels = load_digits(return_X_y=True)
        data, labels = torch.tensor(data, dtype=torch.float32) / 16, torch.tensor(labels, dtype=torch.long)
    except ImportError:
        made = torch.Generator().manual_seed(7)
        centers = torch.rand(10, 64, generator=made)
        labels = torch.arange(1800) % 10
        data = centers[labels] + 0.3 * torch.rand(1800, 64, generator=made)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(1))
    data, labels = data[order], labels[order]
    return data[:1500], labels[:1500], data[1500:], labels[1500:]


def train(group, epochs):
    torch.manual_seed(3)
    network = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    model = torch.nn.parallel.DistributedDataParallel(network, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    data, labels, test_data, test_labels = digits()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    dist.barrier(group=group)
    began = time.perf_counter()
    for _ in range(epochs):
        for start in range(0, len(data) - BATCH + 1, BATCH):
            mine = slice(start + rank * BATCH // ranks, start + (rank + 1) * BATCH // ranks)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(data[mine]), labels[mine]).backward()
            optimizer.step()
    dist.barrier(group=group)
    seconds = time.perf_counter() - began
    with torch.no_grad():
        right = (network(test_data).argmax(1) == test_labels).float().mean().item()
    return right, seconds


def run_rank(rank, ranks, epochs, init_method):
    torch.set_num_threads(1)
    dist.init_process_group("sccl", init_method=init_method, rank=rank, world_size=ranks)
    results = {}
    for backend in ("gloo", "sccl"):
        results[backend] = train(dist.new_group(backend=backend), epochs)
        if rank == 0:
            print(f"{backend}: {results[backend][0]:.1%} of the test digits right after {epochs} epochs, "
                  f"{results[backend][1]:.2f} s on {ranks} ranks", flush=True)
    if abs(results["gloo"][0] - results["sccl"][0]) > 0.02:
        raise SystemExit("the two backends trained different networks")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=20)
    arguments = parser.parse_args()
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        run_rank(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), arguments.epochs, "env://")
        return
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, (arguments.ranks, arguments.epochs, f"file://{folder}/store"), arguments.ranks)


if __name__ == "__main__":
    main()
