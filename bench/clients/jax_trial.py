"""JAX on devices with the library preloaded: each rank is a process, and ranks may share a device (a process service lets
their kernels run side by side). Usage: LD_PRELOAD=libsccl.so jax_trial.py [RANKS] [DEVICES]
The last line counts the checks."""
import os

import trial


def work(rank, ranks, devices, port):
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=ranks, process_id=rank, local_device_ids=[rank % devices])
    mesh = Mesh(np.array(jax.devices()), ("x",))
    sharded = NamedSharding(mesh, P("x"))
    wrong, checks = [], 0

    def run(name, function, wanted, *, count=1000, kind=np.float32):
        """`wanted`: of the inputs by rank, this rank's result."""
        nonlocal checks
        inputs = [(np.arange(count * ranks) % 7 + peer).astype(kind) for peer in range(ranks)]
        local = jax.device_put(inputs[rank], jax.local_devices()[0])
        whole = jax.make_array_from_single_device_arrays((ranks * count * ranks,), sharded, [local])
        mapped = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
        got = np.asarray(mapped(whole).addressable_shards[0].data)
        checks += 1
        if not np.array_equal(got, wanted(inputs).astype(kind)):
            wrong.append(f"{name} {kind.__name__} {count}")

    for kind in (np.float32, np.int32, np.float16):
        for count in (1, 1000, 300000):
            sizes = {"count": count, "kind": kind}
            part = lambda values, r: values[r * count:(r + 1) * count]
            run("psum", lambda x: jax.lax.psum(x, "x"), lambda inputs: sum(inputs), **sizes)
            run("pmax", lambda x: jax.lax.pmax(x, "x"), lambda inputs: np.maximum.reduce(inputs), **sizes)
            run("all_gather", lambda x: jax.lax.all_gather(x, "x", tiled=True), lambda inputs: np.concatenate(inputs), **sizes)
            run("psum_scatter", lambda x: jax.lax.psum_scatter(x, "x", tiled=True), lambda inputs: part(sum(inputs), rank), **sizes)
            run("all_to_all", lambda x: jax.lax.all_to_all(x, "x", 0, 0, tiled=True),
                lambda inputs: np.concatenate([part(peer, rank) for peer in inputs]), **sizes)
            run("ppermute", lambda x: jax.lax.ppermute(x, "x", [(i, (i + 1) % ranks) for i in range(ranks)]),
                lambda inputs: inputs[(rank - 1) % ranks], **sizes)
    if rank == 0 or wrong:
        print(f"JAX {jax.__version__}, {ranks} ranks, {checks} checks, wrong: {', '.join(wrong) or 'none'}", flush=True)
    jax.distributed.shutdown()
    return 1 if wrong else 0


trial.run_programs(work, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cuda")})
