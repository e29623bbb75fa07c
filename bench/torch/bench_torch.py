#!/usr/bin/env python3
"""The backend `sccl` beside gloo: both groups in the same processes, their calls interleaved in blocks.

Usage: bench_torch.py --ranks 2 [--sizes 4,1K,...] [--rounds 15] [--messages] [--hosts 2]
For each size the ranks alternate between blocks of calls of one group and of the other; a block's time per call is the
slowest rank's. With --messages ranks 0 and 1 send a tensor there and back instead; with --hosts the ranks are on as many
hosts in turn, which are network namespaces (root). What is reported is the median over rounds of the ratio of two neighbouring blocks, with its quartiles."""
import argparse
import contextlib
import ctypes
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))
import hosts as namespaces  # noqa: E402

BLOCK_SECONDS = 0.05


def bytes_of(text):
    return int(float(text.rstrip("KM")) * {"K": 1024, "M": 1024 * 1024}.get(text[-1], 1))


def processor():
    for line in open("/proc/cpuinfo", encoding="ascii", errors="replace"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def block(call, group, count):
    dist.barrier(group=group)
    began = time.perf_counter()
    for _ in range(count):
        call(group)
    spent = torch.tensor([(time.perf_counter() - began) / count * 1e6], dtype=torch.float64)
    dist.all_reduce(spent, op=dist.ReduceOp.MAX, group=group)
    return spent.item()


def compare(call, groups, rounds):
    """Microseconds per call of each group, by round."""
    counts = {}
    for name, group in groups.items():
        block(call, group, 2)
        took = block(call, group, 3)
        counts[name] = max(1, min(2000, int(BLOCK_SECONDS * 1e6 / max(took, 1))))
        agreed = torch.tensor([counts[name]])
        dist.all_reduce(agreed, op=dist.ReduceOp.MIN, group=groups["gloo"])
        counts[name] = int(agreed.item())
    times = {name: [] for name in groups}
    for round_ in range(rounds):
        order = list(groups) if round_ % 2 == 0 else list(reversed(groups))
        for name in order:
            times[name].append(block(call, groups[name], counts[name]))
    return times


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 2048), torch.nn.ReLU(),
                               torch.nn.Linear(2048, 1836))  # 10.05 million parameters


def ddp_step(groups, mapped):
    import sccl.torch
    models = {name: torch.nn.parallel.DistributedDataParallel(mlp(), process_group=group) for name, group in groups.items()}
    if mapped:
        models["sccl"].register_comm_hook(sccl.torch.MappedBuckets(groups["sccl"]), sccl.torch.mapped_hook)
    data = torch.randn(8, 1024)

    def call(group):
        name = next(name for name, other in groups.items() if other is group)
        models[name].zero_grad()
        models[name](data).sum().backward()
    return call


def messages(rank, sizes, groups, rounds):
    """Of the time there and back; ranks from 2 on only take part in the barriers."""
    lines = []
    for size in sizes:
        tensor = torch.ones(max(1, bytes_of(size) // 4))

        def call(group, tensor=tensor):
            if rank == 0:
                dist.send(tensor, 1, group=group)
                dist.recv(tensor, 1, group=group)
            elif rank == 1:
                dist.recv(tensor, 0, group=group)
                dist.send(tensor, 0, group=group)
        lines.append((f"send and back, {size}", compare(call, groups, rounds)))
    return lines


def rank_main(rank, ranks, store, sizes, rounds, results, place, only_messages):
    if place:
        place.enter()
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"  # there is no name service by which it would find its address
    torch.set_num_threads(1)
    import sccl.torch
    began = time.perf_counter()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    first = time.perf_counter() - began
    groups = {"gloo": dist.new_group(backend="gloo"), "sccl": dist.new_group(backend="sccl")}
    if only_messages:
        lines = messages(rank, sizes, groups, rounds)
    else:
        lines = collectives(ranks, sizes, groups, rounds)
    if rank == 0:
        results.put((first, lines))
    dist.barrier()
    dist.destroy_process_group()


def collectives(ranks, sizes, groups, rounds):
    import sccl.torch
    started = {}
    for name in ("gloo", "sccl"):
        times = []
        for _ in range(7):
            dist.barrier()
            began = time.perf_counter()
            made = dist.new_group(backend=name)
            times.append((time.perf_counter() - began) * 1e6)
            dist.destroy_process_group(made)
        started[name] = times
    lines = [("new group", {name: times[1:] for name, times in started.items()})]
    for size in sizes:
        for kind, make in (("", torch.empty), (" mapped", sccl.torch.empty)):
            count = bytes_of(size) // 4
            if kind and bytes_of(size) < 1 << 20:
                continue
            tensor = make(max(1, count)).fill_(1.0)
            plain = torch.ones(max(1, count))

            def call(group, tensor=tensor, plain=plain):
                dist.all_reduce(tensor if group is groups["sccl"] else plain, op=dist.ReduceOp.MAX if count > 1 << 18 else dist.ReduceOp.SUM, group=group)
            lines.append((f"all_reduce {size}{kind}", compare(call, groups, rounds)))
    if ranks <= 4:
        for kind in ("", ", mapped_hook"):
            lines.append((f"DDP step, MLP of 10 M parameters{kind}", compare(ddp_step(groups, bool(kind)), groups, max(5, rounds // 2))))
    return lines


def ratio(times):
    ratios = sorted(theirs / ours for theirs, ours in zip(times["gloo"], times["sccl"]))
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 2 else [ratios[0], statistics.median(ratios), ratios[-1]]
    return statistics.median(times["gloo"]), statistics.median(times["sccl"]), quartiles


def overhead():
    """Of a call of the backend over the library's, microseconds; one rank, so that nobody is waited for."""
    import sccl
    import sccl.torch
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("sccl", init_method=f"file://{folder}/store", rank=0, world_size=1)
        group = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
        options = dist.AllreduceOptions()
        options.asyncOp = False
        tensor = torch.ones(1)
        library = ctypes.CDLL(sccl.library_path())

        class UniqueId(ctypes.Structure):
            _fields_ = [("internal", ctypes.c_byte * 128)]
        unique = UniqueId()
        library.ncclGetUniqueId(ctypes.byref(unique))
        made = ctypes.c_void_p()
        library.ncclCommInitRank(ctypes.byref(made), 1, unique, 0)
        pointer, one = ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(1)
        tensors = [tensor]

        def best(call, count=20000):
            times = []
            for _ in range(7):
                began = time.perf_counter()
                for _ in range(count):
                    call()
                times.append((time.perf_counter() - began) / count * 1e6)
            return min(times)
        backend = best(lambda: group.allreduce(tensors, options).wait())
        whole = best(lambda: dist.all_reduce(tensor), 5000)
        direct = best(lambda: library.ncclAllReduce(pointer, pointer, one, 7, 0, made, None))
        dist.destroy_process_group()
    return backend, whole, direct


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="4,1K,16K,64K,1M,64M")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--messages", action="store_true")
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--overhead", action="store_true")
    arguments = parser.parse_args()
    if arguments.overhead:
        backend, whole, direct = overhead()
        print(f"1 rank, 4 bytes, us: ncclAllReduce through ctypes {direct:.2f}, the backend's method and wait {backend:.2f}, "
              f"dist.all_reduce {whole:.2f}")
        return
    context = torch.multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    over_hosts = namespaces.Hosts(arguments.hosts) if arguments.hosts > 1 else contextlib.nullcontext()
    with tempfile.TemporaryDirectory() as folder, over_hosts as hosts:
        started = [context.Process(target=rank_main, args=(rank, arguments.ranks, os.path.join(folder, "store"),
                                                           arguments.sizes.split(","), arguments.rounds, results,
                                                           hosts and hosts.place(rank % arguments.hosts), arguments.messages))
                   for rank in range(arguments.ranks)]
        for process in started:
            process.start()
        _, lines = results.get()
        for process in started:
            process.join()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    print(f"{arguments.ranks} ranks on {len(os.sched_getaffinity(0))} cores, {processor()}, PyTorch {torch.__version__}, "
          f"commit {commit}; `{' '.join(sys.argv)}`\n")
    print("| call | gloo us | sccl us | gloo / sccl | quartiles |\n|---|---|---|---|---|")
    for name, times in lines:
        theirs, ours, (low, middle, high) = ratio(times)
        print(f"| {name} | {theirs:.1f} | {ours:.1f} | {middle:.2f} | {low:.2f} to {high:.2f} |")


if __name__ == "__main__":
    main()
