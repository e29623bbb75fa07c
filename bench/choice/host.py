#!/usr/bin/env python3
"""The choice among schedules on this host against an exhaustive search; prints Markdown (part of bench/choice/run.sh).

For each case every planner and protocol is measured in turn, several times over; the least time of each counts, because
other programs only ever slow a call down. Held against the best of them: the built-in thresholds (what serves without
any setting), the simulator's first, and what a race of measured times settles on (SCCL_TUNE=online, then load).
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=root / "build/release", type=pathlib.Path)
parser.add_argument("--repeats", type=int, default=3)
parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
parser.add_argument("--bytes", type=int, nargs="+", default=[64, 1024, 16 << 10, 256 << 10, 4 << 20])
parser.add_argument("--collectives", nargs="+", default=["all_reduce", "all_gather", "broadcast"])
arguments = parser.parse_args()
sccl = arguments.build / "src/tools/sccl"
SHORT = {"all_reduce": "allreduce", "all_gather": "allgather", "broadcast": "broadcast"}
PLANNERS = ("ring", "one-hop", "all-pairs", "recursive", "binomial")


def perf(collective, ranks, size, environment, *more, iterations=None):
    iterations = iterations or max(5, min(200, (32 << 20) // (size * ranks)))
    command = [str(sccl), "perf", collective, "-n", str(ranks), "-b", str(size), "-e", str(size), "-w", "3", "-c", "0",
               "-i", str(iterations), "--json", *more]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if result.returncode != 0:
        return None  # the planner has nothing for this collective and number of ranks
    return min(row["us"] for row in json.loads(result.stdout)["rows"] if row["place"] == "out-of-place")


def simulated_first(collective, ranks, size):
    call_bytes = size // ranks if collective == "all_gather" else size
    command = [str(sccl), "plan", "--topo", f"host:{ranks}", "--collective", SHORT[collective], "--bytes", str(call_bytes), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["chosen"]


def candidates(size):
    found = [(planner, "simple") for planner in PLANNERS] + [("one-hop", "direct")]
    return found + ([(planner, "ll") for planner in PLANNERS] if size <= 1024 else [])


def case(collective, ranks, size, cache):
    perf(collective, ranks, size, {"SCCL_CACHE_DIR": cache, "SCCL_TUNE": "online"}, iterations=600 if size <= 256 << 10 else 400)
    runs = {(planner, protocol): (planner, protocol, {"SCCL_TUNE": "off"}) for planner, protocol in candidates(size)}
    best = {}
    for _ in range(arguments.repeats):
        for key, (planner, protocol, environment) in runs.items():
            us = perf(collective, ranks, size, environment, "--algo", planner, "--proto", protocol)
            if us is not None:
                best[key] = min(us, best.get(key, us))
        for name, environment in (("default", {"SCCL_TUNE": "off"}), ("tuned", {"SCCL_CACHE_DIR": cache, "SCCL_TUNE": "load"})):
            us = perf(collective, ranks, size, environment)
            best[name] = min(us, best.get(name, us))
    default, tuned = best.pop("default"), best.pop("tuned")
    first = min(best, key=best.get)
    planner = simulated_first(collective, ranks, size)
    simulated = best.get((planner, "simple"), best.get(("one-hop", "simple")))
    return first, best[first], default, simulated, tuned


print(f"## This host\n\n{len(os.sched_getaffinity(0))} cores, {datetime.date.today()}; ranks as processes; microseconds, the least "
      f"of {arguments.repeats} interleaved measurements. `{pathlib.Path(__file__).relative_to(root)}`\n")
print("| collective | ranks | bytes | best | us | thresholds | simulator's first | tuned |\n|---|---|---|---|---|---|---|---|")
ratios = {"thresholds": [], "simulator": [], "tuned": []}
with tempfile.TemporaryDirectory() as cache:
    for collective in arguments.collectives:
        for ranks in arguments.ranks:
            for size in arguments.bytes:
                first, us, *chosen = case(collective, ranks, size, cache)
                for name, time in zip(ratios, chosen):
                    ratios[name].append(time / us)
                print(f"| {collective} | {ranks} | {size} | {first[0]} ({first[1]}) | {us:.1f} | "
                      + " | ".join(f"{time / us:.2f}" for time in chosen) + " |", flush=True)
print()
for name, all_of in ratios.items():
    good = sum(ratio <= 1.10 for ratio in all_of)
    print(f"* {name}: within 10% of the best in {good} of {len(all_of)} cases, median ratio {sorted(all_of)[len(all_of) // 2]:.2f}, worst {max(all_of):.2f}")
