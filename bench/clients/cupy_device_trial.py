"""CuPy's arrays on devices with the library preloaded, by cupyx.distributed: each rank is a process, and ranks may share a
device. Usage: LD_PRELOAD=libsccl.so cupy_device_trial.py [RANKS] [DEVICES]. The last line counts the checks."""
import trial


def work(rank, ranks, devices, port):
    import cupy
    from cupy.cuda import nccl
    from cupyx.distributed import init_process_group
    cupy.cuda.Device(rank % devices).use()
    group = init_process_group(ranks, rank, host="127.0.0.1", port=port)
    wrong, checks = [], 0

    def check(name, got, wanted):
        nonlocal checks
        checks += 1
        if not bool((got == wanted).all()):
            wrong.append(name)

    for kind in (cupy.float32, cupy.float16, cupy.int64, cupy.complex64):
        for count in (1, 1000, 1000000):
            inputs = [(cupy.arange(count) % 5 + peer).astype(kind) for peer in range(ranks)]
            total, mine, title = sum(inputs), inputs[rank], f"{cupy.dtype(kind).name} {count}"
            out = cupy.zeros(count, kind)
            group.all_reduce(mine, out)
            check(f"all_reduce {title}", out, total)
            out = cupy.zeros(count, kind)
            group.reduce(mine, out, root=ranks - 1)
            check(f"reduce {title}", out, total if rank == ranks - 1 else cupy.zeros(count, kind))
            data = mine.copy()
            group.broadcast(data, root=0)
            check(f"broadcast {title}", data, inputs[0])
            out = cupy.zeros((ranks, count), kind)
            group.all_gather(mine, out, count)
            check(f"all_gather {title}", out, cupy.stack(inputs))
            whole, out = cupy.stack([value * mine for value in range(1, ranks + 1)]), cupy.zeros(count, kind)
            group.reduce_scatter(whole, out, count)
            check(f"reduce_scatter {title}", out, (rank + 1) * total)
            if ranks == 2:  # with more its pairs would wait for one another
                out = cupy.zeros(count, kind)
                group.send_recv(mine, out, 1 - rank)
                check(f"send_recv {title}", out, inputs[1 - rank])
            out = cupy.zeros((ranks, count), kind)
            group.all_to_all(whole, out)
            check(f"all_to_all {title}", out, cupy.stack([(rank + 1) * peer for peer in inputs]))
            group.barrier()
    if rank == 0 or wrong:
        print(f"CuPy {cupy.__version__}, NCCL {nccl.get_version()}, {ranks} ranks, {checks} checks, wrong: {', '.join(wrong) or 'none'}", flush=True)
    return 1 if wrong else 0


trial.run_programs(work)
