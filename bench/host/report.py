#!/usr/bin/env python3
"""Markdown and a plot of what compare_mpi has measured. Usage: report.py [--svg FILE] CSV...

The bound of AllReduce by memory. Let p ranks reduce L bytes each, in buffers larger than the caches. Whatever the
algorithm, each of the p inputs must be read from memory by someone, and each of the p results written: 2 p L bytes. What
passes between ranks may stay in the caches, and stores that bypass them need not read what they overwrite, so neither
counts. With B, the best rate of traffic that the same processes reach all at once in a loop that reads and writes equal
shares (memory_rate.h), a call takes 2 p L / B at least.
"""
import argparse
import collections
import csv
import datetime
import math
import os
import pathlib
import platform
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "ratios"))
from ratio_plot import plot

MIB = 1 << 20
LABEL = {"all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "broadcast": "Broadcast",
         "broadcast_moving": "Broadcast, moving root"}
LABEL |= {f"{name}_registered": f"{label}, ncclMemAlloc" for name, label in LABEL.items()}
Case = collections.namedtuple("Case", "calls_mpi calls_sccl pairs mpi_us sccl_us ratio low high")
TOLERATED = 0.95


class Results:
    """cases[mpi][collective, ranks][bytes]; memory[ranks][loop] = the best GB/s of traffic, beside it what it was told of;
    beside[collective, ranks][bytes] = shares of the bound that a loop run in turn with the calls sets, by MPI;
    own_slots[collective][bytes] = (mpi, libsccl's time, the MPI's time) by that of a loop through slots of its own."""

    def __init__(self, paths):
        self.cases = collections.defaultdict(lambda: collections.defaultdict(dict))
        self.versions = {}
        self.memory = collections.defaultdict(dict)
        self.stores = ""
        self.beside = collections.defaultdict(lambda: collections.defaultdict(list))
        self.own_slots = collections.defaultdict(lambda: collections.defaultdict(list))
        for path in paths:
            mpi = ""
            with open(path, newline="") as file:
                for row in csv.reader(file):
                    mpi = self._take(row, mpi)

    def _take(self, row, mpi):
        if row[:1] == ["mpi"]:
            mpi = "Open MPI" if "Open MPI" in row[1] else "MPICH"
            self.versions[mpi] = row[1].replace("MPICH Version:", "MPICH ").replace("\t", "").replace("  ", " ")
        elif row[:1] == ["case"]:
            _, collective, ranks, size, *numbers = row
            self.cases[mpi][collective, int(ranks)][int(size)] = Case(*map(int, numbers[:3]), *map(float, numbers[3:]))
        elif row[:1] == ["memory"]:
            _, loop, self.stores, ranks, _, traffic, us = row
            rates = self.memory[int(ranks)]
            rates[loop] = max(rates.get(loop, 0), float(traffic) / float(us) / 1e3)
        elif row[:1] == ["beside"]:
            _, collective, ranks, size, share = row
            self.beside[collective, int(ranks)][int(size)].append(float(share))
        elif row[:1] == ["own_slots"]:
            _, collective, _, size, ours, theirs = row
            self.own_slots[collective][int(size)].append((mpi, float(ours), float(theirs)))
        return mpi

    def groups(self):
        keys = {key for by_group in self.cases.values() for key in by_group}
        return sorted(keys, key=lambda key: (list(LABEL).index(key[0]), key[1]))

    def ratios(self, mpi, group):
        return {size: case.ratio for size, case in sorted(self.cases.get(mpi, {}).get(group, {}).items())}

    def against_best(self, group):
        """By size the smaller of the ratios to either MPI."""
        least = {}
        for mpi in self.cases:
            for size, ratio in self.ratios(mpi, group).items():
                least[size] = min(ratio, least.get(size, ratio))
        return dict(sorted(least.items()))

    def bound_rate(self):
        """Of loops that read as much as they write; by ranks, and the best of all for other numbers of ranks."""
        rates = {ranks: max(rate for loop, rate in loops.items() if loop != "add") for ranks, loops in self.memory.items()}
        return rates, max(rates.values(), default=0)


def mean(ratios):
    values = list(ratios.values())
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def size_text(size):
    for unit, name in ((MIB, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} B"


def least_text(ratios):
    if not ratios:
        return "-"
    size = min(ratios, key=ratios.get)
    return f"{ratios[size]:.2f} at {size_text(size)}"


def number(value):
    return "-" if math.isnan(value) else f"{value:.2f}"


def head(results):
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    spreads = sorted(case.high / case.low for by_group in results.cases.values() for by_size in by_group.values() for case in by_size.values())
    yield "# Collectives on the host against MPI\n"
    yield f"`bench/host/run.sh` on {len(os.sched_getaffinity(0))} cores ({model}), {datetime.date.today()}; {', '.join(results.versions.values())}.\n"
    yield ("Float32, sums, out of place (Broadcast: one buffer, root 0); ranks are processes, and the same processes call both libraries "
           "on the same buffers, in alternating blocks of calls (milliseconds, thousands of the shortest calls). Times are the "
           "slowest rank's, medians of blocks; a ratio is MPI's time by ours, the median over pairs of neighbouring blocks. Sizes are "
           "nccl-tests': the larger buffer of a rank (AllGather: its result, ReduceScatter: its input). Buffers are the C library's; "
           "where it says ncclMemAlloc, both libraries use buffers that come from there (nccl-tests' -R 1).\n")
    if spreads:
        yield (f"Noise: the quartiles of a case's pairs lie apart by a factor of {spreads[len(spreads) // 2]:.2f} in the median case and "
               f"{spreads[len(spreads) * 9 // 10]:.2f} or more in a tenth of the cases.\n")


def summary(results):
    yield "## Summary\n"
    yield ("Geometric means over all sizes of the ratio to the faster MPI at each size, then to each of them; the least ratio, and how "
           f"many sizes are slower than {TOLERATED} of the faster MPI; from 1 MiB up against Open MPI.\n")
    yield ("| collective | ranks | best MPI | least | slower | Open MPI | MPICH | Open MPI from 1 MiB: mean | least |\n"
           "|---|---|---|---|---|---|---|---|---|")
    for group in results.groups():
        best = results.against_best(group)
        large = {size: ratio for size, ratio in results.ratios("Open MPI", group).items() if size >= MIB}
        slower = sum(ratio < TOLERATED for ratio in best.values())
        yield (f"| {LABEL[group[0]]} | {group[1]} | {number(mean(best))} | {least_text(best)} | {slower} of {len(best)} | "
               f"{number(mean(results.ratios('Open MPI', group)))} | {number(mean(results.ratios('MPICH', group)))} | "
               f"{number(mean(large))} | {least_text(large)} |")
    yield ""


def beside_text(shares):
    """Of as many runs as there are MPIs."""
    return f"{sum(shares) / len(shares):.0%}" if shares else "-"


def bound(results):
    rates, best = results.bound_rate()
    if not rates:
        return
    yield "## AllReduce and memory\n"
    yield ("p ranks with L bytes each in buffers beyond the caches: whatever the algorithm, every input is read from memory once and "
           "every result written once, 2 p L bytes; what passes between ranks may stay in the caches, and stores that bypass "
           "them read nothing. With B the best rate of traffic of these processes at once, in a loop that reads as much as it writes, a "
           "call takes 2 p L / B at least. Nobody need reach it: where ranks cannot map one another's buffers (they can those of "
           "ncclMemAlloc), data pass through the kernel or through slots as well.\n")
    loops = sorted({loop for by_loop in results.memory.values() for loop in by_loop})
    yield f"| ranks | {' | '.join(f'{loop}, GB/s' for loop in loops)} | B |\n|---|{'---|' * len(loops)}---|"
    for ranks, by_loop in sorted(results.memory.items()):
        yield f"| {ranks} | {' | '.join(f'{by_loop[loop]:.1f}' for loop in loops)} | {rates[ranks]:.1f} |"
    yield (f"\nTraffic (bytes read and written) of all ranks at once, {results.stores} stores, the best of the repeats. *copy*: one array to another; "
           "*add to both*: two arrays summed into two others, a rank's part of AllReduce of two if all buffers were its own; *add*: "
           "two arrays summed into one (not for B: it reads more than it writes). *Beside*: the time of *add to both* by the call's, run in "
           "turn, medians: the share of what the memory gives at that moment.\n")
    yield "| | ranks | bytes | bound us | libsccl us | bound / libsccl | beside | Open MPI us | bound / Open MPI |\n|---|---|---|---|---|---|---|---|---|"
    for (collective, ranks), by_size in sorted(results.cases.get("Open MPI", {}).items()):
        for size, case in sorted(by_size.items()):
            if not collective.startswith("all_reduce") or size < 64 * MIB:
                continue
            least_us = 2 * ranks * size / rates.get(ranks, best) / 1e3
            yield (f"| {LABEL[collective]} | {ranks} | {size} | {least_us:.0f} | {case.sccl_us:.0f} | {least_us / case.sccl_us:.0%} | "
                   f"{beside_text(results.beside[collective, ranks][size])} | {case.mpi_us:.0f} | "
                   f"{least_us / case.mpi_us:.0%} |")
    yield ""


def own_slots(results):
    if not results.own_slots:
        return
    yield "## What slots allow\n"
    yield ("Two ranks that cannot map one another's buffers pass data through slots. A loop (bench/host/own_slots.h) that moves what such a rank "
           "has to, but through slots of its own, which stay in its cache, and without a peer to wait for, shows how fast a library "
           "with slots could be if passing data on cost nothing. *Own slots / libsccl*: how near libsccl comes to it. *Open MPI / own slots*: the "
           "most by which a library with slots could be ahead of Open MPI at that moment, which has the kernel copy from buffer to "
           "buffer. All run in turn, medians; the better of stores through and past the caches.\n")
    yield "| collective | bytes | own slots / libsccl | Open MPI / own slots | Open MPI / libsccl |\n|---|---|---|---|---|"
    for collective, by_size in results.own_slots.items():
        for size, runs in sorted(by_size.items()):
            ours = sum(run[1] for run in runs) / len(runs)
            for mpi, ours_then, theirs in runs:
                if mpi == "Open MPI":
                    yield (f"| {LABEL[collective]} | {size_text(size)} | {1 / ours:.0%} | {theirs:.2f} | {theirs / ours_then:.2f} |")
    yield ""


def tables(results):
    yield "## All sizes\n"
    yield "Microseconds a call; beside each ratio its quartiles over the pairs of blocks.\n"
    for group in results.groups():
        yield f"### {LABEL[group[0]]}, {group[1]} ranks\n"
        mpis = [mpi for mpi in ("Open MPI", "MPICH") if results.cases.get(mpi, {}).get(group)]
        yield "| bytes | " + " | ".join(f"{mpi} | libsccl | ratio" for mpi in mpis) + " |\n|---|" + "---|---|---|" * len(mpis)
        for size in results.against_best(group):
            fields = []
            for mpi in mpis:
                case = results.cases[mpi][group].get(size)
                fields.append(f"{case.mpi_us:.2f} | {case.sccl_us:.2f} | {case.ratio:.2f} ({case.low:.2f} .. {case.high:.2f})" if case else "- | - | -")
            yield f"| {size} | " + " | ".join(fields) + " |"
        yield ""


def plot_of(results):
    groups = results.groups()
    ranks = sorted({group[1] for group in groups})
    rows = [[(f"{LABEL[name]}, {count} ranks", {mpi: results.ratios(mpi, (name, count)) for mpi in results.cases}) for count in ranks]
            for name in LABEL if any(name == group[0] for group in groups)]
    return plot(rows, ("Open MPI", "MPICH"), f"float32, processes on {os.cpu_count()} cores")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--sizes", type=pathlib.Path, help="a file of their own for the tables of all sizes")
    arguments = parser.parse_args()
    results = Results(arguments.csv)
    if not results.groups():
        raise SystemExit("nothing was measured")
    for part in (head, summary, bound, own_slots):
        print("\n".join(part(results)))
    if arguments.svg:
        arguments.svg.write_text(plot_of(results))
        print(f"![Ratios over sizes]({arguments.svg.name})\n")
    if arguments.sizes:
        arguments.sizes.write_text("\n".join(["# Collectives on the host against MPI, size by size\n",
                                              "Of the run that [host.md](host.md) tells of.\n", *tables(results)]))
        print(f"All sizes: [{arguments.sizes.name}]({arguments.sizes.name})")
    else:
        print("\n".join(tables(results)))


main()
