"""The two ways a call can go on a device, tested and measured beside each other: kernels that wait for their peers, and
streams that wait for flags (SCCL_DEVICE_PATH); large moves by kernels, and by copy engines (SCCL_COPY_ENGINE_BYTES)."""

PATHS = {"kernels": {"SCCL_DEVICE_PATH": "kernels"}, "streams": {"SCCL_DEVICE_PATH": "streams"}}
ENGINES = {"kernels": {}, "copy engines": {"SCCL_COPY_ENGINE_BYTES": str(1 << 20)}}
CALLS = ("AllReduce", "AllGather", "Broadcast", "SendRecv")
MOVES = ("AllGather", "Broadcast", "SendRecv")
SIZES = (8, 1 << 14, 1 << 20, 1 << 24, 1 << 26)


def check(report, options, run_job):
    """What the parts 'correctness' and 'failures' check of the usual path, of the others."""
    for mode in ("threads", "processes"):
        for task in ("correctness", "transfers", "graphs", "one_sided", "mismatch", "abort"):
            job = {"task": task, "ranks": 2, "quick": True}
            report.check(f"{task} ordered by streams, 2 ranks as {mode}", run_job(mode, job, options.limit, PATHS["streams"]))
        for task in ("correctness", "transfers"):
            job = {"task": task, "ranks": 2, "quick": options.quick}
            report.check(f"{task} with copy engines, 2 ranks as {mode}", run_job(mode, job, options.limit, ENGINES["copy engines"]))


def measure(report, options, run_job, mode, ranks, call, paths, sizes):
    times = {}
    for name, environment in paths.items():
        job = {"task": "bench", "ranks": ranks, "call": call, "sizes": sizes, "mode": mode}
        results = run_job(mode, job, options.limit, environment)
        error = next((result["error"] for result in results if "error" in result), None)
        if error and mode == "processes" and error.startswith("did not end"):
            # Kernels of processes in time slices may be too slow to end in time: that is a result, too.
            report.skip(f"{call} by {name}, {ranks} ranks as {mode}", error)
            continue
        if error:
            report.check(f"{call} by {name}, {ranks} ranks as {mode}", results)
            continue
        times[name] = [max(result["rows"][i]["us"] for result in results) for i in range(len(sizes))]
    for i, size in enumerate(sizes):
        report.paths.append({"call": call, "mode": mode, "ranks": ranks, "bytes": size, "us": {name: row[i] for name, row in times.items()}})
    print(f"paths {call} {ranks} {mode}: " + ", ".join(f"{name} {row[0]:.1f} .. {row[-1]:.1f} us" for name, row in times.items()), flush=True)


def run(report, options, run_job):
    check(report, options, run_job)
    sizes = [size for size in SIZES if not options.quick or size <= 1 << 20]
    for ranks in options.ranks:
        for call in CALLS:
            measure(report, options, run_job, "processes", ranks, call, PATHS, sizes)
        for mode in ("threads", "processes"):
            for call in MOVES:
                measure(report, options, run_job, mode, ranks, call, ENGINES, [size for size in sizes if size >= 1 << 20])


def markdown(rows):
    lines = ["", "## Paths", "", "us by the slowest rank; processes share the device as the machine lets them (time slices, or a process service).", "",
             "| call | ranks | as | bytes | kernels | streams | copy engines |", "| --- | --- | --- | --- | --- | --- | --- |"]
    figure = lambda row, name: f"{row['us'][name]:.1f}" if name in row["us"] else "-"
    lines += [f"| {row['call']} | {row['ranks']} | {row['mode']} | {row['bytes']} | {figure(row, 'kernels')} | {figure(row, 'streams')} | "
              f"{figure(row, 'copy engines')} |" for row in rows]
    return lines
