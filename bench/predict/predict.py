#!/usr/bin/env python3
"""Predicted against measured on the host platform; writes docs/results/prediction.md (--out) and prints its summary.

Predicted are AllReduce and AllGather by three planners each, by `sccl simulate --cores`: the program that runs, on a model
of ranks that share cores. The model's figures come from other calls between two ranks (model.py). Everything is measured in
turns until --minutes are over, so that a slow minute of the machine falls upon all alike; medians count, and the order of
two planners is judged by ratios of neighbouring measurements (order.py).
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import model
import order

ROOT = pathlib.Path(__file__).resolve().parents[2]
KIB, MIB = 1 << 10, 1 << 20
PLANNERS = ["ring", "one-hop", "recursive"]
PREDICTED = ["all_reduce", "all_gather"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=ROOT / "build/release", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=7, help="all of it takes about so long")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4, 8])
    parser.add_argument("--most-mib", type=float, default=64, help="of the sizes 64 KiB, 256 KiB, ... 64 MiB")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/results/prediction.md")
    parser.add_argument("--save", type=pathlib.Path, help="also keep all measured times in this JSON file")
    parser.add_argument("--load", type=pathlib.Path, help="predict and report from such a file; measure nothing")
    return parser.parse_args()


class Perf:
    """Microseconds of a call, out of place, by `sccl perf`; sizes are those of the largest buffer, as in nccl-tests."""

    def __init__(self, sccl):
        self.sccl = sccl
        # Slots, as the simulated programs have them, and nothing that earlier runs have learned.
        self.environment = {**os.environ, "SCCL_TUNE": "off", "SCCL_DIRECT": "0", "SCCL_PROTO": "simple"}

    def __call__(self, collective, ranks, size, algorithm=None):
        # A few milliseconds of work: longer ones are interrupted more often, shorter ones are noise.
        iterations = max(2, min(100, (8 * MIB) // (size * ranks)))
        command = [str(self.sccl), "perf", collective, "-n", str(ranks), "-b", str(size), "-e", str(size), "-i",
                   str(iterations), "-w", "2", "-c", "0", "--json"] + (["--algo", algorithm] if algorithm else [])
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=120)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-600:]}\n{done.stderr[-1200:]}")
        return next(row["us"] for row in json.loads(done.stdout)["rows"] if row["place"] == "out-of-place")


def planners_of(collective, ranks):
    needs_power_of_two = collective == "all_gather"
    return [one for one in PLANNERS if one != "recursive" or not needs_power_of_two or ranks & (ranks - 1) == 0]


def key(*parts):
    return "/".join(str(part) for part in parts)


class Measurement:
    """Times by what was measured; of one case, a planner's k-th time stands beside the others' k-th."""

    def __init__(self, perf):
        self.perf, self.times, self.spent = perf, {}, {}

    def calibrate(self, sizes):
        for name, call in list(model.CALLS.items()) * 2:
            self.add(key("model", name), self.perf(call.collective, call.ranks, call.size, call.algorithm))
        for size in sizes:
            for name, call in model.SIZED_CALLS.items():
                self.add(key("model", name, size), self.perf(call.collective, call.ranks, size, call.algorithm))

    def case(self, case):
        collective, ranks, size = case
        began = time.monotonic()
        planners = planners_of(collective, ranks)
        # Who goes first changes, so that none always follows the same one.
        turn = len(self.times.get(key(*case, planners[0]), [])) % len(planners)
        found = {one: self.perf(collective, ranks, size, one) for one in planners[turn:] + planners[:turn]}
        for planner, us in found.items():
            self.add(key(*case, planner), us)
        self.spent[case] = self.spent.get(case, 0) + time.monotonic() - began

    def add(self, name, us):
        self.times.setdefault(name, []).append(us)


def measure(perf, few, many, sizes, minutes):
    """`few`: cases with a core for each rank, measured every time. `many`: the others get two thirds of the time, by turns."""
    measurement = Measurement(perf)
    end = time.monotonic() + 60 * minutes
    turns = itertools.cycle(many)
    rounds = 0
    while time.monotonic() < end or rounds < 2:
        began = time.monotonic()
        measurement.calibrate(sizes)
        for case in few:
            measurement.case(case)
        rounds += 1
        until = time.monotonic() + 2 * (time.monotonic() - began)
        while many and time.monotonic() < min(until, end):
            measurement.case(next(turns))
        print(f"round {rounds}, {max(0.0, end - time.monotonic()):.0f} s left", file=sys.stderr)
    return measurement.times


class Simulator:
    """Microseconds by `sccl simulate`."""

    def __init__(self, sccl, folder):
        self.sccl, self.path = sccl, os.path.join(folder, "cores.json")

    def __call__(self, call, figures):
        with open(self.path, "w") as file:
            json.dump(figures, file)
        # Sizes are those of the larger buffer; the simulator's of what a rank puts in.
        put_in = call.size // call.ranks if call.collective == "all_gather" else call.size
        command = [str(self.sccl), "simulate", "--topo", f"host:{call.ranks}", "--collective",
                   call.collective.replace("_", ""), "--bytes", str(put_in), "--algo", call.algorithm, "--cores", self.path,
                   "--json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["time_us"]


def predict(simulate, figures, case, planner, cores):
    collective, ranks, size = case
    return figures.entry_us(ranks, cores) + simulate(model.Call(collective, ranks, size, planner),
                                                     figures.for_call(collective, planner, ranks, size, cores))


def size_text(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def processor():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")


def summary(title, cases, times, predicted, judged):
    errors = [abs(predicted[case, one] / statistics.median(times[key(*case, one)]) - 1) for case in cases
              for one in planners_of(*case[:2])]
    told = [case for case in cases if judged[case].told]
    right = lambda some: f"{sum(judged[case].right for case in some)} of {len(some)}"
    losses = [judged[case].loss for case in cases]
    return (f"| {title} | {len(errors)} | {100 * statistics.median(errors):.0f} % | "
            f"{sum(error <= 0.25 for error in errors)} of {len(errors)} | {right(cases)} | {right(told)} | "
            f"{100 * statistics.median(losses):.0f} %, {100 * max(losses):.0f} % |")


def report(groups, times, predicted, judged, figures, cores, minutes):
    lines = ["# Predicted against measured on the host", "",
             f"Command: `bench/predict/predict.py` ({minutes:g} minutes, in turns) on {cores} cores ({processor()}); load average "
             f"{os.getloadavg()[1]:.1f}. Times are medians.",
             "AllReduce and AllGather are predicted by `sccl simulate --cores`: the program that runs, operation by operation, "
             "on ranks that share cores. Its figures are measured with other calls between two ranks "
             "(`alltoall`, `reduce_scatter`, `sendrecv`), that of a yield with four and eight (`reduce_scatter`, `alltoall` of some bytes).",
             "",
             *figures.table(size_text), "",
             "| | schedules | median error | within 25 % | cases in the right order | of those that can be told | "
             "lost by the choice: median, most |", "|---|---|---|---|---|---|---|"]
    lines += [summary(title, cases, times, predicted, judged) for title, cases in groups if cases]
    lines += ["", *order.DEFINITION, "",
              "| collective | ranks | bytes | algorithm | times | measured us | predicted us | error | order |",
              "|---|---|---|---|---|---|---|---|---|"]
    for case in [case for _, cases in groups for case in cases]:
        for planner in planners_of(*case[:2]):
            measured = times[key(*case, planner)]
            median, foreseen = statistics.median(measured), predicted[case, planner]
            word = ("right" if judged[case].right else "wrong") + ("" if judged[case].told else " (alike)")
            lines.append(f"| {case[0]} | {case[1]} | {size_text(case[2])} | {planner} | {len(measured)} | {median:.1f} | "
                         f"{foreseen:.1f} | {100 * (foreseen / median - 1):+.0f} % | {word} |")
    return "\n".join(lines) + "\n"


def main():
    asked = arguments()
    sccl = asked.build / "src/tools/sccl"
    cores = len(os.sched_getaffinity(0))
    sizes = [size for size in (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB) if size <= asked.most_mib * MIB]
    cases = list(itertools.product(PREDICTED, asked.ranks, sizes))
    few = [case for case in cases if case[1] <= cores]
    many = [case for case in cases if case[1] > cores]
    if asked.load:
        times = json.loads(asked.load.read_text())
    else:
        times = measure(Perf(sccl), few, many, sizes, asked.minutes)
    if asked.save:
        asked.save.write_text(json.dumps(times))
    # A short run does not come round to all.
    many = [case for case in many if key(*case, "ring") in times]
    with tempfile.TemporaryDirectory() as folder:
        simulate = Simulator(sccl, folder)
        figures = model.Figures(times, sizes, key, simulate, cores)
        predicted = {(case, one): predict(simulate, figures, case, one, cores) for case in few + many
                     for one in planners_of(*case[:2])}
    judged = {case: order.judge({one: times[key(*case, one)] for one in planners_of(*case[:2])},
                                {one: predicted[case, one] for one in planners_of(*case[:2])}) for case in few + many}
    text = report([("ranks <= cores", few), ("ranks > cores", many)], times, predicted, judged, figures, cores, asked.minutes)
    asked.out.write_text(text)
    print(text[:text.index("| collective |")])


if __name__ == "__main__":
    main()
