"""The protocols of messages (SCCL_PROTO), tested and measured beside each other: slots, flagged words, flagged lines of 128
bytes. Ranks of one process would use one another's buffers in place instead, unless that is forbidden."""

PROTOCOLS = ("simple", "ll", "ll128")
SLOTS_ONLY = {"NCCL_P2P_DIRECT_DISABLE": "1"}
CALLS = ("AllReduce", "AllGather", "Broadcast")
SIZES = (8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22)


def environment(protocol):
    return {**SLOTS_ONLY, "SCCL_PROTO": protocol}


def check(report, options, run_job):
    for mode in ("threads", "processes"):
        for protocol in PROTOCOLS:
            job = {"task": "correctness", "ranks": 2, "quick": options.quick or mode == "processes"}
            report.check(f"correctness by {protocol}, 2 ranks as {mode}", run_job(mode, job, options.limit, environment(protocol)))
        for ranks in options.ranks:
            job = {"task": "churn", "ranks": ranks, "quick": options.quick}
            report.check(f"lines under other data call after call, {ranks} ranks as {mode}",
                         run_job(mode, job, options.limit, environment("ll128")))
        for task in ("graphs", "mismatch"):
            report.check(f"{task} by ll128, 2 ranks as {mode}", run_job(mode, {"task": task, "ranks": 2}, options.limit, environment("ll128")))


def run(report, options, run_job):
    check(report, options, run_job)
    sizes = SIZES[:2] if options.quick else SIZES
    for mode in ("threads", "processes"):
        for ranks in options.ranks:
            for call in CALLS[:1] if options.quick else CALLS:
                times = {}
                for protocol in PROTOCOLS:
                    job = {"task": "bench", "ranks": ranks, "call": call, "sizes": sizes, "mode": mode}
                    results = run_job(mode, job, options.limit, environment(protocol))
                    if any("error" in result for result in results):
                        report.check(f"bench {call} by {protocol}, {ranks} ranks as {mode}", results)
                        continue
                    times[protocol] = [max(result["rows"][i]["us"] for result in results) for i in range(len(sizes))]
                for i, size in enumerate(sizes):
                    report.protocols.append({"call": call, "mode": mode, "ranks": ranks, "bytes": size,
                                             "us": {name: row[i] for name, row in times.items()}})
                print(f"protocols {call} {ranks} {mode}: " + ", ".join(f"{name} {row[0]:.1f} .. {row[-1]:.1f} us" for name, row in times.items()),
                      flush=True)


def markdown(rows):
    lines = ["", "## Protocols", "", "us by the slowest rank, through slots. Where `ll` does not hold a chunk, its column is that of `simple`.", "",
             "| call | ranks | as | bytes | simple | ll | ll128 |", "| --- | --- | --- | --- | --- | --- | --- |"]
    figure = lambda row, name: f"{row['us'][name]:.1f}" if name in row["us"] else "-"
    lines += [f"| {row['call']} | {row['ranks']} | {row['mode']} | {row['bytes']} | {figure(row, 'simple')} | {figure(row, 'll')} | "
              f"{figure(row, 'll128')} |" for row in rows]
    return lines
