#!/usr/bin/env python3
"""MIAD's slices against the best fixed ones on this host; prints Markdown. Only a quiet machine gives it a meaning:
slices that a slot bounds to the same size must come out alike.

For each case one run of `sccl perf --trace-tuning` in a cache of its own gives the slice that MIAD settles on and the
number of calls it took. Then that slice and every fixed one (SCCL_CHUNK) are measured in turn, several times over, and
the least time of each counts, because other programs only ever slow a call down.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import subprocess
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=root / "build/release", type=pathlib.Path)
parser.add_argument("--repeats", type=int, default=5)
parser.add_argument("--iterations", type=int, default=10)
parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
parser.add_argument("--mib", type=float, nargs="+", default=[1, 4, 16])
arguments = parser.parse_args()
sccl = arguments.build / "src/tools/sccl"
KIB, MIB = 1 << 10, 1 << 20
FIXED = [16 * KIB << i for i in range(7)]


def perf(collective, ranks, size, iterations, environment, *more):
    command = [str(sccl), "perf", collective, "-n", str(ranks), "-b", str(size), "-e", str(size), "-w", "0", "-c", "0",
               "-i", str(iterations), *more]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment}).stdout


def settled(collective, ranks, size):
    """The slice MIAD keeps, and its calls: those before the first that another schedule or a later review takes."""
    with tempfile.TemporaryDirectory() as folder:
        text = perf(collective, ranks, size, 20, {"SCCL_CACHE_DIR": folder, "SCCL_ALGO": "one-hop"}, "--trace-tuning")
    largest = max(text.split("# tuning ")[1:], key=lambda part: int(part.split(" of ")[1].split(" bytes")[0].split("..")[-1]))
    times = collections.OrderedDict()
    calls = 0
    for line in largest.splitlines()[2:]:
        if not line.startswith("  "):
            break
        fields = [field for field in line.split() if set(field) != {"*"}]
        if not fields[-2].isdigit():
            continue
        calls += 1
        chunk, us = int(fields[-2]), float(fields[-1])
        times[chunk] = min(us, times.get(chunk, us))
    return min(times, key=times.get), calls


def least_us(collective, ranks, size, chunks):
    best = {}
    for _ in range(arguments.repeats):
        for chunk in chunks:
            rows = json.loads(perf(collective, ranks, size, arguments.iterations,
                                   {"SCCL_TUNE": "off", "SCCL_ALGO": "one-hop", "SCCL_CHUNK": str(chunk)}, "--json"))["rows"]
            us = min(row["us"] for row in rows if row["place"] == "out-of-place")
            best[chunk] = min(us, best.get(chunk, us))
    return best


lines = ["# Slices by MIAD", "",
         f"`bench/tuning/miad.py` on {platform.processor() or platform.machine()}, {len(os.sched_getaffinity(0))} cores, "
         f"{datetime.date.today()}. Microseconds are the least of {arguments.repeats} interleaved measurements of "
         f"{arguments.iterations} calls (out of place, processes, one-hop).", "",
         "| collective | ranks | bytes | MIAD's slice | its calls | us | best fixed slice | us | ratio |", "|---|---|---|---|---|---|---|---|---|"]
ratios = []
for collective in ("all_reduce", "broadcast", "all_gather"):
    for ranks in arguments.ranks:
        for mib in arguments.mib:
            size = int(mib * MIB)
            chunk, calls = settled(collective, ranks, size)
            us = least_us(collective, ranks, size, sorted({*FIXED, chunk}))
            best = min(FIXED, key=us.get)
            ratios.append(us[chunk] / us[best])
            lines.append(f"| {collective} | {ranks} | {size} | {chunk} | {calls} | {us[chunk]:.0f} | {best} | {us[best]:.0f} | {ratios[-1]:.3f} |")
within = sum(ratio <= 1.05 for ratio in ratios)
lines += ["", f"Within 5% of the best fixed slice: {within} of {len(ratios)}; median ratio {sorted(ratios)[len(ratios) // 2]:.3f}."]
print("\n".join(lines))
