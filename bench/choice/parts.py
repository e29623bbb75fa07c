#!/usr/bin/env python3
"""Which schedules serve a DGX-1V and parts of it, by the log of ranks on this host; prints Markdown (part of bench/choice/run.sh).

`sccl perf` runs with SCCL_TOPO=dgx1v:DEVICES and NCCL_DEBUG=INFO; each new size is one line of the log that names the
schedule, its predicted time and the second. Held against the simulator's ranking of the same part (`sccl plan`) and, for
what is chosen, against a simulation of that schedule alone (`sccl simulate`). Exit 1 when a choice is not the
simulator's first, ranks choose differently, or synthesized schedules, trees or rings come first nowhere.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=root / "build/release", type=pathlib.Path)
parser.add_argument("--sccl", type=pathlib.Path, help="the command itself, instead of BUILD's")
parser.add_argument("--factor", type=int, default=2, help="between sizes")
parser.add_argument("--collectives", nargs="+", default=["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"])
arguments = parser.parse_args()
sccl = str(arguments.sccl or arguments.build / "src/tools/sccl")
PARTS = ("0,1", "0,1,2,3", "0,1,4,5,6", "0,2,3,4,6,7", "0,1,2,3,4,5,6")
LEAST, MOST = 8, 64 << 20
ROUNDING = 0.051  # the log tells times to a tenth
# A family wins outright when the best schedule of any other takes longer by this.
OUTRIGHT = 1.001
FAMILIES = {"synth": "SMT", "trees": "trees", "hybrid": "trees", "three-phase": "trees", "ring": "ring", "rings": "ring"}
LINE = re.compile(r"rank (\d+)/\d+: (\w+) of (?:(\d+)\.\.)?(\d+) bytes: (.+?) \((?:ll|simple)\) serves; (.*?); predicted ([\d.]+) us"
                  r"(?:; second (.+?) \(\w+\) predicted ([\d.]+) us)?")
Choice = collections.namedtuple("Choice", "schedule why us second second_us")
failures = []


def family(schedule):
    kind = re.split("[ /]", schedule)[0]
    return FAMILIES.get(kind, kind)


def call(*command, **environment):
    result = subprocess.run([sccl, *command], capture_output=True, text=True, env={**os.environ, **environment})
    if result.returncode != 0:
        sys.exit(f"sccl {' '.join(command)}: exit {result.returncode}: {result.stdout}{result.stderr}")
    return result.stdout


def logged(part, collective, cache):
    """By typical bytes of a size class what serves it, where all ranks agree; news of a search end what can be compared."""
    ranks = part.count(",") + 1
    text = call("perf", collective, "-n", str(ranks), "-b", str(LEAST), "-e", str(MOST), "-f", str(arguments.factor), "-w", "0", "-i", "1", "-c", "0",
                SCCL_TOPO=f"dgx1v:{part}", SCCL_CACHE_DIR=cache, SCCL_SYNTH_MS="0", NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="TUNING")
    found = collections.defaultdict(dict)
    for rank, name, least, most, *choice in LINE.findall(text):
        if name.lower() == collective.replace("_", ""):
            power = int(most) + 1
            typical = int(most) if not least else power // 4 * 3 if power >= 4 else power
            if collective == "all_reduce" and typical < LEAST:
                continue  # sccl perf's barrier
            found[typical].setdefault(int(rank), Choice(choice[0], choice[1], float(choice[2]), choice[3], float(choice[4] or 0)))
    for size, by_rank in found.items():
        if len(by_rank) != ranks or len(set(by_rank.values())) != 1:
            failures.append(f"{part}: {collective} of {size} bytes: ranks choose differently or not at all: {by_rank}")
    return {size: by_rank[0] for size, by_rank in sorted(found.items()) if 0 in by_rank}, "take part from now on" in text


def compare(part, collective, size, choice, with_news):
    """The ranking's first is the choice; returns the family and whether it wins outright."""
    where = ["--topo", f"dgx1v:{part}", "--collective", collective.replace("_", ""), "--bytes", str(size)]
    ranking = json.loads(call("plan", *where, "--json"))["candidates"]
    first = ranking[0]
    told = f"{part}: {collective} of {size} bytes: the log says {choice.schedule} {choice.us} us"
    if choice.us > first["time_us"] + ROUNDING:
        failures.append(f"{told}, the simulator {first['algo']} {first['time_us']:.2f} us")
    if not with_news and choice.schedule != first["algo"]:
        failures.append(f"{told}, but {first['algo']} is first in the ranking")
    alone = json.loads(call("simulate", *where, "--algo", choice.schedule, "--json"))["time_us"] if not with_news else choice.us
    if abs(alone - choice.us) > ROUNDING:
        failures.append(f"{told}, a simulation of it {alone:.2f} us")
    others = [one["time_us"] for one in ranking if family(one["algo"]) != family(choice.schedule)]
    return family(choice.schedule), not others or min(others) > OUTRIGHT * first["time_us"]


def main():
    print("## A DGX-1V's parts, by the log\n\n`bench/choice/parts.py`: calls of ranks on this host with `SCCL_TOPO=dgx1v:DEVICES`, 8 B to "
          "64 MiB (nccl-tests' sizes); how many sizes each family of schedules serves, and of these how many outright (every "
          "other family's best takes 0.1% longer at least; else it is a tie, in which the order of the planners decides).\n\n"
          "| devices | collective | families |\n|---|---|---|")
    outright = collections.Counter()
    examples = {}
    cases = 0
    with tempfile.TemporaryDirectory() as cache:
        for part in PARTS:
            for collective in arguments.collectives:
                served, won = collections.Counter(), collections.Counter()
                choices, with_news = logged(part, collective, cache)
                for size, choice in choices.items():
                    name, alone = compare(part, collective, size, choice, with_news)
                    cases += 1
                    served[name] += 1
                    won[name] += alone
                    if alone:
                        examples[name] = (f"{collective} of {size} bytes on {part.replace(',', ' ')}: {choice.schedule} {choice.us} us, "
                                          f"then {choice.second} {choice.second_us} us")
                outright += won
                print(f"| {part.replace(',', ' ')} | {collective} | {', '.join(f'{name} {served[name]} ({won[name]})' for name in sorted(served))} |", flush=True)
    print(f"\nThe choice is the simulator's first, and alike on all ranks, in {cases - len(failures)} of {cases} cases. Outright:\n")
    for name in ("SMT", "trees", "ring"):
        print(f"* {name}: {outright[name]} sizes" + (f", for example {examples[name]}" if name in examples else ""))
        if outright[name] == 0:
            failures.append(f"{name} comes first nowhere")
    print()
    for failure in failures:
        print(f"* FAILED: {failure}")
    sys.exit(1 if failures or cases == 0 else 0)


main()
