"""Every call of torch.distributed gives what its definition says, for the types and operations that PyTorch has."""
import torch
import torch.distributed as dist

import ranks as testing

OPS = dist.ReduceOp
REDUCTIONS = {"SUM": lambda a, b: a + b, "PRODUCT": lambda a, b: a * b, "MIN": torch.minimum, "MAX": torch.maximum,
              "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]


def make(rank, dtype, count):
    values = (torch.arange(count) * 3 + rank * 5) % 4 + 1
    if dtype.is_complex:
        return torch.complex(values.double(), values.flip(0).double()).to(dtype)
    return values.to(dtype)


def expected(ranks, dtype, count, op):
    result = make(0, dtype, count)
    for rank in range(1, ranks):
        result = REDUCTIONS[op](result, make(rank, dtype, count))
    return result


def equal(found, wanted, what):
    assert found.shape == wanted.shape and found.dtype == wanted.dtype, f"{what}: {found.shape} {found.dtype}"
    same = torch.equal(found, wanted) if not found.is_sparse else torch.equal(found.to_dense(), wanted.to_dense())
    assert same, f"{what}: {found} instead of {wanted}"


def reductions(rank, ranks):
    for dtype in FLOATS + INTEGERS + COMPLEX:
        for op in REDUCTIONS:
            if dtype.is_floating_point and op.startswith("B") or dtype.is_complex and op not in ("SUM", "PRODUCT"):
                continue
            for count in (0, 1, 7, 1000):
                what = f"{op} {dtype} {count}"
                tensor = make(rank, dtype, count)
                if dtype.is_complex and op == "PRODUCT":  # PyTorch refuses it before any backend sees it
                    continue
                dist.all_reduce(tensor, op=getattr(OPS, op))
                equal(tensor, expected(ranks, dtype, count, op), "all_reduce " + what)
                tensor = make(rank, dtype, count)
                dist.reduce(tensor, dst=ranks - 1, op=getattr(OPS, op))
                if rank == ranks - 1:
                    equal(tensor, expected(ranks, dtype, count, op), "reduce " + what)
                parts = [make(rank, dtype, count) + part for part in range(ranks)]
                if not dtype.is_complex and op == "SUM":
                    output = torch.empty(count, dtype=dtype)
                    dist.reduce_scatter(output, parts, op=getattr(OPS, op))
                    equal(output, expected(ranks, dtype, count, op) + rank * ranks, "reduce_scatter " + what)


def test_reductions_are_right_for_every_type_and_operation():
    testing.values(testing.run(reductions, 3))


def more_reductions(rank, ranks):
    truth = torch.tensor([rank == 0, rank == 1, True, False])
    for op, wanted in (("SUM", [True, True, True, False]), ("MAX", [True, True, True, False]),
                       ("MIN", [False, False, True, False]), ("BXOR", [True, True, ranks % 2 == 1, False])):
        tensor = truth.clone()
        dist.all_reduce(tensor, op=getattr(OPS, op))
        equal(tensor, torch.tensor(wanted), "bool " + op)
    average = torch.full((5,), float(rank))
    dist.all_reduce(average, op=OPS.AVG)
    equal(average, torch.full((5,), (ranks - 1) / 2), "AVG")
    large = torch.full((300_001,), rank + 1, dtype=torch.int16)  # several steps of scratch memory
    dist.all_reduce(large)
    equal(large, torch.full((300_001,), ranks * (ranks + 1) // 2, dtype=torch.int16), "large int16")
    bits = torch.full((1_100_003,), 1 << rank, dtype=torch.int32)
    dist.all_reduce(bits, op=OPS.BOR)
    equal(bits, torch.full((1_100_003,), (1 << ranks) - 1, dtype=torch.int32), "large BOR")
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        if hasattr(torch, name):
            eighth = torch.tensor([1.0, 2.0, 0.5]).to(getattr(torch, name))
            dist.all_reduce(eighth)
            assert eighth.float().tolist() == [ranks * 1.0, ranks * 2.0, ranks * 0.5], (name, eighth.float())
    for name in ("uint16", "uint32", "uint64"):
        if hasattr(torch, name):
            unsigned = torch.tensor([1, 2, 3]).to(getattr(torch, name))
            dist.all_reduce(unsigned)
            assert unsigned.tolist() == [ranks, 2 * ranks, 3 * ranks], (name, unsigned)
    if hasattr(dist, "_make_nccl_premul_sum"):
        scaled = torch.full((4,), 2.0)
        dist.all_reduce(scaled, op=dist._make_nccl_premul_sum(0.5))
        equal(scaled, torch.full((4,), float(ranks)), "PREMUL_SUM")


def test_truth_values_averages_and_large_counts():
    testing.values(testing.run(more_reductions, 3))


def shapes(rank, ranks):
    tensor = torch.arange(12.0).reshape(3, 4).t() + rank  # not contiguous
    dist.all_reduce(tensor)
    equal(tensor, torch.arange(12.0).reshape(3, 4).t() * ranks + sum(range(ranks)), "transposed")
    tensor = torch.full((4, 6), float(rank))[:, ::2]
    dist.broadcast(tensor, 1)
    equal(tensor, torch.full((4, 3), 1.0), "strided broadcast")
    dist.all_reduce(torch.empty(0))
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar)
    equal(scalar, torch.tensor(float(sum(range(ranks)))), "scalar")
    leaf = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(leaf)
    equal(leaf.detach(), torch.full((3,), float(ranks)), "leaf")


def test_tensors_of_any_shape():
    testing.values(testing.run(shapes, 3))


def gathers(rank, ranks):
    mine = torch.full((3, 2), float(rank))
    outputs = [torch.empty(3, 2) for _ in range(ranks)]
    dist.all_gather(outputs, mine)
    for other, output in enumerate(outputs):
        equal(output, torch.full((3, 2), float(other)), "all_gather")
    views = list(torch.empty(ranks, 3, 2).unbind(0))
    dist.all_gather(views, mine)
    equal(views[ranks - 1], torch.full((3, 2), float(ranks - 1)), "all_gather into views")
    uneven = [torch.empty(other + 1) for other in range(ranks)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank)))
    for other, output in enumerate(uneven):
        equal(output, torch.full((other + 1,), float(other)), "uneven all_gather")
    flat = torch.empty(ranks * 3, 2)
    dist.all_gather_into_tensor(flat, mine)
    equal(flat, torch.arange(float(ranks)).repeat_interleave(3).unsqueeze(1).expand(-1, 2).contiguous(), "into tensor")
    output = torch.empty(2)
    dist.reduce_scatter_tensor(output, torch.arange(2.0 * ranks))
    equal(output, torch.arange(2.0 * rank, 2.0 * rank + 2) * ranks, "reduce_scatter_tensor")
    uneven_output = torch.empty(rank + 1)
    dist.reduce_scatter(uneven_output, [torch.full((other + 1,), float(other)) for other in range(ranks)])
    equal(uneven_output, torch.full((rank + 1,), float(rank * ranks)), "uneven reduce_scatter")
    root = ranks - 1
    gathered = [torch.empty(3, 2) for _ in range(ranks)] if rank == root else None
    dist.gather(mine, gathered, dst=root)
    if rank == root:
        for other, part in enumerate(gathered):
            equal(part, torch.full((3, 2), float(other)), "gather")
    scattered = torch.empty(2)
    dist.scatter(scattered, [torch.full((2,), float(other)) for other in range(ranks)] if rank == root else None, src=root)
    equal(scattered, torch.full((2,), float(rank)), "scatter")


def test_gathers_and_scatters():
    testing.values(testing.run(gathers, 3))


def all_to_alls(rank, ranks):
    output = torch.empty(ranks * 2)
    dist.all_to_all_single(output, torch.arange(2.0 * ranks) + 100 * rank)
    equal(output, torch.cat([torch.arange(2.0 * rank, 2.0 * rank + 2) + 100 * other for other in range(ranks)]), "single")
    inputs = [other + rank for other in range(ranks)]  # some are empty
    output = torch.empty(sum(inputs), 3)
    dist.all_to_all_single(output, torch.full((sum(inputs), 3), float(rank)), inputs, inputs)
    equal(output, torch.cat([torch.full((rank + other, 3), float(other)) for other in range(ranks)]), "uneven")
    outputs = [torch.empty(rank + 1) for _ in range(ranks)]
    dist.all_to_all(outputs, [torch.full((other + 1,), float(rank)) for other in range(ranks)])
    for other, part in enumerate(outputs):
        equal(part, torch.full((rank + 1,), float(other)), "lists")


def test_all_to_all_with_uneven_parts():
    testing.values(testing.run(all_to_alls, 3))


def objects(rank, ranks):
    gathered = [None] * ranks
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank})
    assert [entry["rank"] for entry in gathered] == list(range(ranks)), gathered
    shared = [{"from": rank}, "second"] if rank == 1 else [None, None]
    dist.broadcast_object_list(shared, src=1)
    assert shared == [{"from": 1}, "second"], shared
    collected = [None] * ranks if rank == 0 else None
    dist.gather_object(("rank", rank), collected, dst=0)
    assert rank != 0 or collected == [("rank", other) for other in range(ranks)], collected
    received = [None]
    dist.scatter_object_list(received, [f"for {other}" for other in range(ranks)] if rank == 0 else None, src=0)
    assert received == [f"for {rank}"], received


def test_objects():
    testing.values(testing.run(objects, 3))


def sparse(rank, ranks):
    for dense_dimensions in (0, 1):
        shape = [ranks] + [2] * dense_dimensions
        tensor = torch.sparse_coo_tensor(torch.arange(rank + 1).reshape(1, -1), torch.ones([rank + 1] + [2] * dense_dimensions), shape)
        wanted = torch.zeros(shape)
        for other in range(ranks):
            wanted[:other + 1] += 1
        dist.all_reduce(tensor)
        assert torch.equal(tensor.to_dense(), wanted), (tensor, wanted)


def test_sparse_all_reduce():
    testing.values(testing.run(sparse, 3))


def asynchronous(rank, ranks):
    works = []
    tensors = [torch.full((1000,), float(rank + i)) for i in range(20)]
    for tensor in tensors:
        works.append(dist.all_reduce(tensor, async_op=True))
    dist.barrier()  # behind all of them
    for i, (work, tensor) in enumerate(zip(works, tensors)):
        work.wait()
        assert work.is_completed() and work.is_success()
        equal(tensor, torch.full((1000,), float(sum(range(ranks)) + i * ranks)), f"call {i}")
    tensor = torch.ones(5)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    twice = future.then(lambda done: done.value()[0] * 2).wait()
    equal(twice, torch.full((5,), 2.0 * ranks), "future")
    coalesced = [torch.ones(2), torch.ones(3) * 2]
    dist.all_reduce_coalesced(coalesced)
    equal(coalesced[1], torch.full((3,), 2.0 * ranks), "coalesced")


def test_asynchronous_calls_run_in_order_and_have_futures():
    testing.values(testing.run(asynchronous, 3))


def several_tensors(rank, ranks):
    """Tensors of one rank in a list take part as if each were a rank's; those of a coalesced call do not."""
    from torch.distributed.distributed_c10d import _get_default_group
    group = _get_default_group()
    backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    pair = [torch.full((3,), 2.0 * rank), torch.full((3,), 2.0 * rank + 1)]
    backend.allreduce(pair).wait()
    total = float(sum(range(2 * ranks)))
    for tensor in pair:
        equal(tensor, torch.full((3,), total), "all_reduce of two tensors")
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = 1, 1
    pair = [torch.full((3,), 2.0 * rank), torch.full((3,), 2.0 * rank + 1)]
    backend.broadcast(pair, options).wait()
    for tensor in pair:
        equal(tensor, torch.full((3,), 3.0), "broadcast of two tensors")
    pair = [torch.full((3,), 2.0 * rank), torch.full((3,), 2.0 * rank + 1)]
    lists = [[torch.empty(3) for _ in range(2 * ranks)] for _ in pair]
    backend.allgather(lists, pair).wait()
    for tensors in lists:
        for index, tensor in enumerate(tensors):
            equal(tensor, torch.full((3,), float(index)), "all_gather of two tensors")
    for count in (5, 100000):  # one that travels with others, one that travels alone
        twice = [torch.full((count,), float(rank + 1))] * 2 + [torch.ones(count // 2)]
        dist.all_reduce_coalesced(twice)
        equal(twice[0], torch.full((count,), ranks * (ranks + 1) / 2), "a tensor twice in a list")
        equal(twice[2], torch.full((count // 2,), float(ranks)), "coalesced")


def test_several_tensors_of_a_rank():
    testing.values(testing.run(several_tensors, 3))


def callbacks(rank, ranks):
    """What a callback calls and waits for runs before what is queued behind it, at every rank."""
    order = []

    def again(done):
        order.append("callback")
        total = dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0]
        largest = total.clone()
        dist.all_reduce(largest, op=OPS.MAX)
        equal(largest, total, "a call in a callback")
        return total

    first = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(again)
    later = dist.all_reduce(torch.ones(4) * 3, async_op=True)
    twice = first.then(lambda done: done.value() * 2)
    equal(twice.wait(), torch.full((4,), 2.0 * ranks * ranks), "callback of a callback")
    later.wait()
    assert order == ["callback"], order


def test_callbacks_of_futures_may_call_and_wait():
    testing.values(testing.run(callbacks, 3))


def groups(rank, ranks):
    evens = dist.new_group([0, 2])
    if rank in (0, 2):
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=evens)
        equal(tensor, torch.full((3,), 2.0), "subgroup")
        peer = torch.full((1,), float(rank))
        other = 2 - rank
        request = dist.isend(peer, other, group=evens)
        received = torch.empty(1)
        dist.recv(received, other, group=evens)
        request.wait()
        assert received.item() == other
    everybody = dist.new_group()
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=everybody)
    assert tensor.item() == ranks
    if hasattr(dist, "split_group"):
        try:
            half = dist.split_group(split_ranks=[[0, 1], [2]])
        except RuntimeError as error:
            assert "No device associated" in str(error), error  # before 2.8 PyTorch splits groups of accelerators only
            return
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=half)
        assert tensor.item() == (2 if rank < 2 else 1), tensor


def test_groups_within_groups():
    testing.values(testing.run(groups, 3))


def mapped(rank, ranks):
    import sccl.torch
    tensor = sccl.torch.empty(1 << 20)
    tensor.fill_(rank + 1)
    for _ in range(3):
        dist.all_reduce(tensor)
    total = ranks * (ranks + 1) / 2
    equal(tensor, torch.full((1 << 20,), total * ranks * ranks), "mapped")
    half = sccl.torch.empty((2, 3), dtype=torch.float16)
    assert half.shape == (2, 3) and half.dtype == torch.float16


def test_mapped_memory():
    testing.values(testing.run(mapped, 3))


def ddp(rank, ranks, mapped_buckets):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    twin = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    twin.load_state_dict(model.state_dict())
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    if mapped_buckets:
        import sccl.torch
        parallel.register_comm_hook(sccl.torch.MappedBuckets(), sccl.torch.mapped_hook)
    data = torch.randn(12, 8)
    target = torch.randn(12, 2)
    share = slice(rank * 12 // ranks, (rank + 1) * 12 // ranks)
    for _ in range(3):
        for network, part in ((parallel, share), (twin, slice(None))):
            network.zero_grad()
            torch.nn.functional.mse_loss(network(data[part]), target[part]).backward()
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter -= 0.1 * parameter.grad
    for mine, alone in zip(model.parameters(), twin.parameters()):
        assert torch.allclose(mine, alone, atol=1e-5), (mine, alone)


def test_ddp_trains_as_one_process_would():
    testing.values(testing.run(ddp, 3, False))


def test_ddp_trains_the_same_with_buckets_in_mapped_memory():
    testing.values(testing.run(ddp, 3, True))


if __name__ == "__main__":
    testing.main(globals())
