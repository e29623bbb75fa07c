#!/usr/bin/env python3
"""The choice among schedules on this host against an exhaustive search; prints Markdown (part of bench/choice/run.sh).

Every planner and protocol has a communicator of its own in one group of processes (bench/paired), and all are served in
turn, in another order every round. Several groups one after the other, for the system may put the ranks of each on other
cores: with 4 ranks on 2 cores a binomial tree took 0.9 of one-hop's time in one group and 1.7 in the next. The best of a
size is the one whose time by the median of its round is least in the median. Held against it: what serves without any
setting (thresholds), the simulator's first, and what a race of measured times settles on (SCCL_TUNE=online, then load); a
ratio is the median over the rounds. Noise: what serves without any setting, made twice, by itself.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "bench/paired"))
import paired  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=root / "build/release", type=pathlib.Path)
parser.add_argument("--groups", type=int, default=3, help="of processes, one after the other")
parser.add_argument("--rounds", type=int, default=31, help="of every group")
parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
parser.add_argument("--least", type=int, default=64)
parser.add_argument("--most", type=int, default=4 << 20)
parser.add_argument("--collectives", nargs="+", default=["all_reduce", "all_gather", "reduce_scatter", "broadcast"])
arguments = parser.parse_args()
sccl = arguments.build / "src/tools/sccl"
FACTOR = 4
DIVIDED = ("all_gather", "reduce_scatter")  # sizes are those of the larger buffer, as sccl perf counts; calls count a share
PLANNERS = ("ring", "one-hop", "all-pairs", "recursive", "binomial")
MOST_LL_BYTES = 4096  # of a message
GOOD = 1.10


def sizes():
    size = arguments.least
    while size <= arguments.most:
        yield size
        size *= FACTOR


def perf(collective, ranks, calls, environment):
    command = [str(sccl), "perf", collective, "-n", str(ranks), "-b", str(arguments.least), "-e", str(arguments.most), "-f", str(FACTOR),
               "-w", "0", "-c", "0", "-i", str(calls)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment}).stdout


def simulated_first(collective, ranks, size, known):
    put_in = size // ranks if collective == "all_gather" else size
    command = [str(sccl), "plan", "--topo", f"host:{ranks}", "--collective", collective.replace("_", ""), "--bytes", str(put_in), "--json"]
    order = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["candidates"]
    return next((one["algo"], "simple") for one in order if (one["algo"], "simple") in known)


def serving(collective, ranks, environment):
    """What the library says serves each size: planner and protocol."""
    told = perf(collective, ranks, 1, {**environment, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING"})
    found = {}
    for call, size, planner, protocol in re.findall(r"rank 0/\d+: (\w+) of (\d+) bytes: (\S+) \(([a-z ]+)\) serves", told):
        if call.lower() == collective.replace("_", ""):
            size = int(size) * (ranks if collective in DIVIDED else 1)
            found[size] = (planner, "direct" if protocol == "single copy" else protocol)
    return found


def planned(collective, ranks):
    """The planners that have a schedule for this collective."""
    command = [str(sccl), "plan", "--topo", f"host:{ranks}", "--collective", collective.replace("_", ""), "--bytes", "65536", "--json"]
    order = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["candidates"]
    return [planner for planner in PLANNERS if any(one["algo"] == planner for one in order)]


def measure(collective, ranks, cache):
    """By size and candidate the microseconds of every round; candidates are planner and protocol, or how they are chosen."""
    candidates = {(planner, protocol): {"SCCL_ALGO": planner, "SCCL_PROTO": protocol} for planner in planned(collective, ranks) for protocol in ("simple", "ll")}
    candidates["one-hop", "direct"] = {"SCCL_ALGO": "one-hop", "SCCL_PROTO": "direct"}
    candidates |= {"thresholds": {}, "thresholds again": {}, "tuned": {"SCCL_TUNE": "load", "SCCL_CACHE_DIR": cache}}
    found = {size: {label: [] for label in candidates} for size in sizes()}
    for _ in range(arguments.groups):
        for size, blocks in paired.measure(arguments.build, collective, ranks, sizes(), candidates, arguments.rounds).items():
            for label, us in blocks.items():
                found[size][label] += us
    return found


def longest_message(collective, ranks, size, planner):
    """Of one chunk: what `ll` has to hold."""
    shares = collective in DIVIDED or (collective == "all_reduce" and planner in ("ring", "one-hop"))
    return size // ranks if shares else size


def judge(collective, ranks, cache, ratios, noise):
    perf(collective, ranks, 600, {"SCCL_CACHE_DIR": cache, "SCCL_TUNE": "online"})
    serve = {"thresholds": serving(collective, ranks, {"SCCL_TUNE": "off"}),
             "tuned": serving(collective, ranks, {"SCCL_CACHE_DIR": cache, "SCCL_TUNE": "load"})}
    for size, blocks in sorted(measure(collective, ranks, cache).items()):
        noise.append(paired.ratio(blocks.pop("thresholds again"), blocks["thresholds"]))
        known = {label: us for label, us in blocks.items() if isinstance(label, tuple) and
                 (label[1] != "ll" or longest_message(collective, ranks, size, label[0]) <= MOST_LL_BYTES)}
        order = paired.relative(known)
        best = min(order, key=order.get)
        chosen = {"thresholds": blocks["thresholds"], "tuned": blocks["tuned"]}
        names = {name: serve[name].get(size, ("?", "?")) for name in chosen}
        names["simulator's first"] = simulated_first(collective, ranks, size, known)
        chosen["simulator's first"] = known[names["simulator's first"]]
        fields = []
        for name in ratios:
            # What is chosen and what is best may be the same: then nothing is lost.
            took = 1.0 if names[name] == best else paired.ratio(chosen[name], known[best])
            ratios[name].append(took)
            fields.append(f"{took:.2f} {names[name][0]} ({names[name][1]})")
        print(f"| {collective} | {ranks} | {size} | {best[0]} ({best[1]}) | {statistics.median(known[best]):.1f} | {' | '.join(fields)} |", flush=True)


def main():
    print(f"## This host\n\n{len(os.sched_getaffinity(0))} cores, {datetime.date.today()}; ranks as processes; microseconds a call, medians of "
          f"{arguments.groups} groups of processes, {arguments.rounds} rounds each, in blocks of 1.5 ms. For each choice its time by the best candidate's. "
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
        print(f"* noise: the same choice measured twice in one run agrees within 10% in {same} of {len(noise)} cases ({same / len(noise):.0%}), "
              f"median ratio {statistics.median(noise):.2f}, {min(noise):.2f} to {max(noise):.2f}")


main()
