#!/usr/bin/env python3
"""The choice among schedules on this host against an exhaustive search; prints Markdown (part of bench/choice/run.sh).

Every planner and protocol is measured at all sizes by one process group, one after the other, in another order every
round. A time is taken relative to the median of its round, so that a slow minute hits all alike, and the median over the
rounds counts. Held against the best of them: the built-in thresholds (what serves without any
setting), the simulator's first, and what a race of measured times settles on (SCCL_TUNE=online, then load), each by the
times of this search: a choice is judged, not another measurement of it. What nobody chose differs from itself by the noise
of the machine: the default calls are measured in the same rounds once more, and compared with the candidate that they are.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=root / "build/release", type=pathlib.Path)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--calls", type=int, default=30, help="of one measurement; of short calls many times as many")
parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
parser.add_argument("--least", type=int, default=64)
parser.add_argument("--most", type=int, default=4 << 20)
parser.add_argument("--collectives", nargs="+", default=["all_reduce", "all_gather", "reduce_scatter", "broadcast"])
arguments = parser.parse_args()
sccl = arguments.build / "src/tools/sccl"
FACTOR = 4
DIVIDED = ("all_gather", "reduce_scatter")  # sizes are those of the larger buffer, as sccl perf counts; calls count a share
PLANNERS = ("ring", "one-hop", "all-pairs", "recursive", "binomial")
MOST_LL_BYTES = 1024  # of a message
GOOD = 1.10
SHORT_BYTES, SHORT_CALLS = 16 << 10, 30  # up to so many bytes so many times as many calls


def sizes():
    size = arguments.least
    while size <= arguments.most:
        yield size
        size *= FACTOR


def perf(collective, ranks, most, calls, environment, *more):
    """Microseconds by size; nothing where the planner has no schedule for this collective and number of ranks."""
    found = {}
    short = [size for size in sizes() if size <= min(SHORT_BYTES, most)]
    long = [size for size in sizes() if SHORT_BYTES < size <= most]
    for part, times in ((short, SHORT_CALLS), (long, 1)):
        if part:
            found.update(perf_part(collective, ranks, part, calls * times, environment, *more))
    return found


def perf_part(collective, ranks, part, calls, environment, *more):
    command = [str(sccl), "perf", collective, "-n", str(ranks), "-b", str(part[0]), "-e", str(part[-1]), "-f", str(FACTOR), "-w", "3",
               "-c", "0", "-i", str(calls), "--json", *more]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if result.returncode == 2:
        return {}
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {result.returncode}: {result.stderr}")
    return {row["bytes"]: row["us"] for row in json.loads(result.stdout)["rows"] if row["place"] == "out-of-place"}


def simulated_first(collective, ranks, size, known):
    call_bytes = size // ranks if collective in DIVIDED else size
    command = [str(sccl), "plan", "--topo", f"host:{ranks}", "--collective", collective.replace("_", ""), "--bytes", str(call_bytes), "--json"]
    order = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["candidates"]
    return next((one["algo"], "simple") for one in order if (one["algo"], "simple") in known)


def serving(collective, ranks, environment):
    """What the library says serves each size: planner and protocol."""
    command = [str(sccl), "perf", collective, "-n", str(ranks), "-b", str(arguments.least), "-e", str(arguments.most), "-f", str(FACTOR),
               "-w", "0", "-i", "1", "-c", "0"]
    told = subprocess.run(command, check=True, capture_output=True, text=True,
                          env={**os.environ, **environment, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING"}).stdout
    found = {}
    for call, size, planner, protocol in re.findall(r"rank 0/\d+: (\w+) of (\d+) bytes: (\S+) \(([a-z ]+)\) serves", told):
        if call.lower() == collective.replace("_", ""):
            size = int(size) * (ranks if collective in DIVIDED else 1)
            found[size] = (planner, "direct" if protocol == "single copy" else protocol)
    return found


def measure(collective, ranks):
    """By size and candidate the microseconds; the candidate None is what serves without any setting."""
    candidates = [(planner, "simple") for planner in PLANNERS] + [(planner, "ll") for planner in PLANNERS] + [("one-hop", "direct"), None]
    rounds = {size: [] for size in sizes()}
    for _ in range(arguments.rounds):
        random.shuffle(candidates)
        for of_size in rounds.values():
            of_size.append({})
        for candidate in candidates:
            asked = ["--algo", candidate[0], "--proto", candidate[1]] if candidate else []
            most = min(MOST_LL_BYTES, arguments.most) if candidate and candidate[1] == "ll" else arguments.most
            for size, us in perf(collective, ranks, most, arguments.calls, {"SCCL_TUNE": "off"}, *asked).items():
                rounds[size][-1][candidate] = us
    return {size: of_rounds(rounds[size]) for size in rounds}


def of_rounds(rounds):
    middles = [statistics.median(us.values()) for us in rounds]
    usual = statistics.median(middles)
    return {candidate: usual * statistics.median(us[candidate] / middle for us, middle in zip(rounds, middles)) for candidate in rounds[0]}


def judge(collective, ranks, cache, ratios, noise):
    tuning = {"SCCL_CACHE_DIR": cache}
    perf_part(collective, ranks, list(sizes()), 600, {**tuning, "SCCL_TUNE": "online"})
    times = measure(collective, ranks)
    default = serving(collective, ranks, {"SCCL_TUNE": "off"})
    tuned = serving(collective, ranks, {**tuning, "SCCL_TUNE": "load"})
    for size in sizes():
        us = times[size]
        by_default = us.pop(None)
        if default.get(size) in us:
            noise.append(by_default / us[default[size]])
        best = min(us, key=us.get)
        chosen = {"thresholds": default.get(size), "simulator's first": simulated_first(collective, ranks, size, us), "tuned": tuned.get(size)}
        fields = []
        for name, choice in chosen.items():
            # A choice that was not among the candidates is what the default calls ran, or nothing is known of it.
            took = us.get(choice, by_default if choice == default.get(size) else math.inf)
            ratios[name].append(took / us[best])
            fields.append(f"{took / us[best]:.2f} {choice[0]} ({choice[1]})" if choice else "?")
        print(f"| {collective} | {ranks} | {size} | {best[0]} ({best[1]}) | {us[best]:.1f} | {' | '.join(fields)} |", flush=True)


def main():
    print(f"## This host\n\n{len(os.sched_getaffinity(0))} cores, {datetime.date.today()}; ranks as processes; microseconds a call, medians of "
          f"{arguments.rounds} rounds of {arguments.calls} calls ({arguments.calls * SHORT_CALLS} up to {SHORT_BYTES >> 10} KiB). For each choice its time by the best candidate's. "
          f"`{pathlib.Path(__file__).relative_to(root)}`\n")
    print("| collective | ranks | bytes | best | us | thresholds | simulator's first | tuned |\n|---|---|---|---|---|---|---|---|")
    ratios = {"thresholds": [], "simulator's first": [], "tuned": []}
    noise = []
    with tempfile.TemporaryDirectory() as cache:
        for collective in arguments.collectives:
            for ranks in arguments.ranks:
                judge(collective, ranks, cache, ratios, noise)
    print()
    for name, all_of in ratios.items():
        good = sum(ratio <= GOOD for ratio in all_of)
        print(f"* {name}: within 10% of the best in {good} of {len(all_of)} cases ({good / len(all_of):.0%}), median ratio "
              f"{statistics.median(all_of):.2f}, worst {max(all_of):.2f}")
    if noise:
        same = sum(1 / GOOD <= ratio <= GOOD for ratio in noise)
        print(f"* noise: the same choice measured twice in these rounds agrees within 10% in {same} of {len(noise)} cases ({same / len(noise):.0%}), "
              f"median ratio {statistics.median(noise):.2f}, {min(noise):.2f} to {max(noise):.2f}")


main()
