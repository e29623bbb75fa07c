"""What is built upon torch.distributed works over the backend: sharded training, tensors over meshes, pipelines, Join, elastic
restarts. What the installed PyTorch does not have is left out, in one line."""
import os
import re
import subprocess
import sys
import tempfile
import textwrap

import torch
import torch.distributed as dist
from torch import nn

import ranks as testing

STEPS = 4


def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def batch(step, rank):
    torch.manual_seed(100 * step + rank)
    return torch.randn(8, 16)


def loss_of(trained, step, rank):
    return trained(batch(step, rank)).pow(2).mean()


def train(trained, optimizer, rank):
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(trained, step, rank).backward()
        optimizer.step()


def expected_parameters(ranks):
    """Those of one process that sees all batches."""
    alone = model()
    optimizer = torch.optim.Adam(alone.parameters(), lr=1e-2)
    for step in range(STEPS):
        optimizer.zero_grad()
        sum(loss_of(alone, step, rank) / ranks for rank in range(ranks)).backward()
        optimizer.step()
    return [parameter.detach() for parameter in alone.parameters()]


def close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def adam(trained):
    return torch.optim.Adam(trained.parameters(), lr=1e-2)


def fsdp1(rank, ranks):
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
        sharded = FullyShardedDataParallel(model(), device_id=torch.device("cpu"), sharding_strategy=strategy,
                                           use_orig_params=True)
        train(sharded, adam(sharded), rank)
        with FullyShardedDataParallel.summon_full_params(sharded):
            for found, wanted in zip(sharded.parameters(), expected_parameters(ranks)):
                close(found, wanted)


def fsdp2(rank, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    meshes = [init_device_mesh("cpu", (ranks,)), init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("copies", "shards"))]
    for mesh in meshes:
        sharded = model()
        for layer in sharded:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(sharded, mesh=mesh)
        train(sharded, adam(sharded), rank)
        for found, wanted in zip(sharded.parameters(), expected_parameters(ranks)):
            close(found.full_tensor(), wanted)


def checkpoints(rank, ranks, folder):
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.fsdp import fully_shard
    saved, loaded = model(), model(seed=1)
    fully_shard(saved)
    fully_shard(loaded)
    checkpoint.save({"model": saved.state_dict()}, checkpoint_id=folder)
    state = {"model": loaded.state_dict()}
    checkpoint.load(state, checkpoint_id=folder)
    loaded.load_state_dict(state["model"])
    for found, wanted in zip(loaded.parameters(), saved.parameters()):
        close(found.full_tensor(), wanted.full_tensor())


def zero(rank, ranks):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    replicated = nn.parallel.DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(replicated.parameters(), optimizer_class=torch.optim.Adam, lr=1e-2)
    train(replicated, optimizer, rank)
    for found, wanted in zip(replicated.parameters(), expected_parameters(ranks)):
        close(found, wanted)
    optimizer.consolidate_state_dict(0)
    assert rank != 0 or optimizer.state_dict()["state"]


def join(rank, ranks):
    from torch.distributed.algorithms.join import Join
    replicated = nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.SGD(replicated.parameters(), lr=1e-2)
    with Join([replicated]):
        for step in range(2 + 2 * rank):  # ranks have different numbers of batches
            optimizer.zero_grad()
            loss_of(replicated, step, rank).backward()
            optimizer.step()
    found = torch.cat([parameter.detach().view(-1) for parameter in replicated.parameters()])
    largest = found.clone()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    close(found, largest)


def hooks(rank, ranks):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    for hook in (default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook):
        replicated = nn.parallel.DistributedDataParallel(model())
        replicated.register_comm_hook(None, hook)
        loss_of(replicated, 0, rank).backward()
    replicated = nn.parallel.DistributedDataParallel(model())
    replicated.register_comm_hook(powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
    for step in range(STEPS):
        loss_of(replicated, step, rank).backward()


def tensors_over_a_mesh(rank, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(1)
    full = torch.randn(4 * ranks + 3, 2 * ranks + 1)  # uneven in both dimensions
    rows = distribute_tensor(full, mesh, [Shard(0)])
    close(rows.full_tensor(), full)
    close(rows.redistribute(placements=[Shard(1)]).full_tensor(), full)
    close(rows.redistribute(placements=[Replicate()]).to_local(), full)
    columns = distribute_tensor(full.t().contiguous(), mesh, [Shard(1)])
    torch.testing.assert_close((rows @ columns).full_tensor(), full @ full.t(), rtol=1e-4, atol=1e-4)
    parts = DTensor.from_local(torch.full((5, 3), float(rank)), mesh, [Partial()])
    close(parts.redistribute(placements=[Shard(0)]).full_tensor(), torch.full((5, 3), float(sum(range(ranks)))))
    split = parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    close(split(batch(0, 0)), model()(batch(0, 0)))


def functional(rank, ranks):
    import torch.distributed._functional_collectives as calls
    world = dist.group.WORLD
    mine, all_of = torch.full((6, 2), float(rank + 1)), float(sum(range(1, ranks + 1)))
    wide = torch.arange(ranks * 4.0).view(ranks * 2, 2)
    part = slice(2 * rank, 2 * rank + 2)
    close(calls.all_reduce(mine, "sum", world) + 0, torch.full((6, 2), all_of))
    close(calls.all_gather_tensor(wide, 0, world) + 0, torch.cat([wide] * ranks))
    close(calls.reduce_scatter_tensor(wide, "sum", 0, world) + 0, wide[part] * ranks)
    close(calls.reduce_scatter_tensor(wide.t().contiguous(), "sum", 1, world) + 0, wide.t()[:, part] * ranks)
    for found, value in zip(calls.all_reduce_coalesced([wide, 2 * wide], "sum", world), (1, 2)):
        close(found + 0, wide * ranks * value)
    for found, value in zip(calls.all_gather_into_tensor_coalesced([wide, 2 * wide], world), (1, 2)):
        close(found + 0, torch.cat([wide * value] * ranks))
    ones = [1] * ranks
    close(calls.all_to_all_single(torch.full((ranks,), float(rank)), ones, ones, world) + 0, torch.arange(float(ranks)))
    compiled = torch.compile(lambda tensor: calls.all_reduce(tensor, "sum", world) * 2, backend="eager", fullgraph=True)
    close(compiled(mine), torch.full((6, 2), 2 * all_of))


def pipelines(rank, ranks):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
    torch.manual_seed(0)
    layers = [nn.Linear(16, 16) for _ in range(ranks)]
    given, wanted = torch.randn(4 * ranks, 16), torch.randn(4 * ranks, 16)
    for kind in (ScheduleGPipe, Schedule1F1B):
        stage = PipelineStage(layers[rank], rank, ranks, torch.device("cpu"))
        schedule = kind(stage, 2 * ranks, loss_fn=lambda found, target: (found - target).pow(2).mean())
        losses = []
        schedule.step(*([given] if rank == 0 else []), **({"target": wanted, "losses": losses} if rank == ranks - 1 else {}))
        if rank == ranks - 1:
            alone = nn.Sequential(*layers)(given)
            close(torch.stack(losses).mean(), (alone - wanted).pow(2).mean())


def runs_here(since):
    """Whether PyTorch is of version `since` or later; otherwise the test is left out, in one line."""
    found = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if found < since:
        print(f"left out with PyTorch {torch.__version__}: needs {since[0]}.{since[1]}")
    return found >= since


def check(function, since, *arguments):
    if runs_here(since):
        testing.values(testing.run(function, 4, *arguments))


def test_fully_sharded_training():
    check(fsdp1, (2, 0))  # 1.13 does not import it with Python 3.11


def test_fully_sharded_training_by_layers():
    check(fsdp2, (2, 7))  # 2.6 wants streams, which the CPU does not have


def test_checkpoints_of_sharded_models():
    with tempfile.TemporaryDirectory() as folder:
        check(checkpoints, (2, 6), os.path.join(folder, "saved"))


def test_optimizers_whose_state_is_divided():
    check(zero, (1, 13))


def test_ranks_with_different_numbers_of_batches():
    check(join, (1, 13))


def test_hooks_that_call_from_callbacks():
    check(hooks, (2, 0))  # 1.13 compresses to bfloat16 only with NCCL


def test_tensors_over_a_mesh():
    check(tensors_over_a_mesh, (2, 6))


def test_functional_collectives():
    check(functional, (2, 6))


def test_pipelines():
    check(pipelines, (2, 6))


ELASTIC = """
    import os, signal
    import torch, torch.distributed as dist
    import sccl.torch
    dist.init_process_group("sccl")
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    for step in range(20):
        tensor = torch.ones(1000)
        dist.all_reduce(tensor)
        assert (tensor == dist.get_world_size()).all()
        if first and step == 10 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    print("finished after a restart" if not first else "finished", flush=True)
    dist.destroy_process_group()
"""


def test_a_killed_rank_is_replaced_by_torchrun():
    if not runs_here((2, 0)):  # 1.13's does not run with Python 3.11
        return
    with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
        program.write(textwrap.dedent(ELASTIC))
        program.flush()
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=3", "--max_restarts=2",
                               program.name], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and done.stdout.count("finished after a restart") == 3, done.stdout + done.stderr[-3000:]


if __name__ == "__main__":
    testing.main(globals())
