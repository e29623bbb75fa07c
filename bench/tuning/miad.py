#!/usr/bin/env python3
"""MIAD's slices against the best fixed ones on this host; prints Markdown (part of bench/tuning/run.sh).

For each collective and number of ranks one run of `sccl perf --trace-tuning` in a cache of its own gives the slices that
MIAD settles on, by size, and the number of calls it took. Then these slices and fixed ones (SCCL_CHUNK) are served in turn
by communicators in one group of processes (bench/paired), in another order every round; the best fixed slice is the one
whose time by the median of its round is least in the median, and a ratio is the median over the rounds. Slices longer
than a slot are cut to the slot's size: how far these lie apart shows the noise.
"""
import argparse
import datetime
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "bench/paired"))
import paired  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=root / "build/release", type=pathlib.Path)
parser.add_argument("--rounds", type=int, default=31)
parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
parser.add_argument("--collectives", nargs="+", default=["all_reduce", "broadcast", "all_gather"])
arguments = parser.parse_args()
sccl = arguments.build / "src/tools/sccl"
KIB, MIB = 1 << 10, 1 << 20
SIZES = (1 * MIB, 4 * MIB, 16 * MIB)
FIXED = [16 * KIB << i for i in range(6)]
SLOT = 128 * KIB  # the usual size
ALGORITHM = "one-hop"


def perf(collective, ranks, calls, environment, *more):
    command = [str(sccl), "perf", collective, "-n", str(ranks), "-b", str(SIZES[0]), "-e", str(SIZES[-1]), "-f", str(SIZES[1] // SIZES[0]),
               "-w", "1", "-c", "0", "-i", str(calls), "--algo", ALGORITHM, "--proto", "simple", *more]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment}).stdout


def settled(collective, ranks):
    """By size the slice that MIAD keeps and its calls: those before the first that another schedule or a later review takes."""
    with tempfile.TemporaryDirectory() as folder:
        text = perf(collective, ranks, 20, {"SCCL_CACHE_DIR": folder}, "--trace-tuning")
    found = {}
    for part in text.split("# tuning ")[1:]:
        call_bytes = int(part.split(" of ")[1].split(" bytes")[0].split("..")[-1])
        size = call_bytes * ranks if collective == "all_gather" else call_bytes
        times = {}
        calls = 0
        for line in part.splitlines()[2:]:
            fields = [field for field in line.split() if set(field) != {"*"}]
            if not line.startswith("  ") or not fields[-2].isdigit():
                break
            calls += 1
            chunk, us = int(fields[-2]), float(fields[-1])
            times[chunk] = min(us, times.get(chunk, us))
        if size in SIZES and times:
            found[size] = min(times, key=times.get), calls
    return found


def measure(collective, ranks, size, chunks):
    """By slice the microseconds of every round."""
    settings = {chunk: {"SCCL_ALGO": ALGORITHM, "SCCL_PROTO": "simple", "SCCL_CHUNK": chunk} for chunk in chunks}
    return paired.measure(arguments.build, collective, ranks, [size], settings, arguments.rounds, block_us=4000)[size]


def main():
    print(f"## This host\n\n`bench/tuning/miad.py` on {len(os.sched_getaffinity(0))} cores, {datetime.date.today()}: ranks as processes, {ALGORITHM} "
          f"through slots of {SLOT // KIB} KiB, out of place (Broadcast in one buffer); microseconds a call, medians of "
          f"{arguments.rounds} rounds of blocks of 4 ms.\n")
    print("| collective | ranks | bytes | MIAD's slice | its calls | us | best fixed slice | us | ratio |\n|---|---|---|---|---|---|---|---|---|")
    ratios, noise, most_calls = [], [], 0
    for collective in arguments.collectives:
        for ranks in arguments.ranks:
            found = settled(collective, ranks)
            for size, (chunk, calls) in sorted(found.items()):
                blocks = measure(collective, ranks, size, sorted({*FIXED, chunk}))
                same = [fixed for fixed in blocks if fixed >= SLOT]
                order = paired.relative(blocks)
                noise.append(max(order[one] for one in same) / min(order[one] for one in same))
                chunk = min(chunk, SLOT)
                best = min((fixed for fixed in FIXED if fixed <= SLOT), key=order.get)
                ratios.append(1.0 if chunk == best else paired.ratio(blocks[chunk], blocks[best]))
                most_calls = max(most_calls, calls)
                print(f"| {collective} | {ranks} | {size} | {chunk} | {calls} | {statistics.median(blocks[chunk]):.0f} | {best} | "
                      f"{statistics.median(blocks[best]):.0f} | {ratios[-1]:.3f} |", flush=True)
    if not ratios:
        raise SystemExit("nothing was tuned")
    within = sum(ratio <= 1.05 for ratio in ratios)
    print(f"\nWithin 5% of the best fixed slice: {within} of {len(ratios)}; median ratio {statistics.median(ratios):.3f}, worst {max(ratios):.3f}; "
          f"at most {most_calls} calls. Noise: slices that are the same ({', '.join(str(one // KIB) for one in FIXED if one >= SLOT)} KiB) differ by a "
          f"factor of {statistics.median(noise):.3f} in the median case, {max(noise):.3f} at most.\n")


main()
