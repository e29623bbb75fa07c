#!/usr/bin/env python3
"""Markdown of what bench/hosts/run.sh has measured. Usage: report.py [--command TEXT] [--svg FILE] COUNT.MPI.csv... bound.MPI.csv...

A file has lines "mpi,VERSION" and "case,COLLECTIVE,RANKS,BYTES,CALLS,CALLS,PAIRS,MPI_US,SCCL_US,RATIO,LOW,HIGH".
"""
import argparse
import collections
import csv
import math
import os
import pathlib
import platform
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "ratios"))
from ratio_plot import plot

LABEL = {"all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "broadcast": "Broadcast",
         "alltoall": "AlltoAll", "sendrecv": "Send/Recv"}
PEER = {"ob1": "Open MPI, ob1", "ucx": "Open MPI, ucx", "mpich": "MPICH"}


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def time_text(us):
    return f"{us / 1000:.1f} ms" if us >= 10000 else f"{us:.1f}" if us < 100 else f"{us:.0f}"


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def busy_text(load):
    return (f"**The machine was busy with other programs: load {load:.1f} before the first run.** Who spins then loses a whole turn of the scheduler now "
            "and then, and who sleeps waits for a core: single rows say little, least of all below 1 MiB. Measure again on idle cores before you "
            "conclude anything from them.\n")


def read(paths):
    """cases[ranks of a host][collective][bytes][mpi] = (the MPI's us, libsccl's us, ratio); versions[mpi]; bound: like a
    case, of UCX alone in libsccl's place."""
    cases = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(dict)))
    bound = collections.defaultdict(lambda: collections.defaultdict(dict))
    versions = {}
    for path in map(pathlib.Path, paths):
        count, mpi = path.name.split(".")[:2]
        of_count = bound if count == "bound" else cases[int(count)]
        with open(path, newline="") as file:
            for row in csv.reader(file):
                if row[:1] == ["mpi"]:
                    versions[mpi] = row[1].replace("MPICH Version:", "MPICH ").replace("\t", "").strip()
                elif row[:1] == ["case"] and len(row) == 12:
                    of_count[row[1]][int(row[3])][mpi] = (float(row[7]), float(row[8]), float(row[9]))
    return cases, bound, versions


def table(cases, mpis):
    print("| call | size | libsccl, us |", *(f"{PEER[mpi]}, us | ratio |" for mpi in mpis))
    print("|---|---|---|" + "---|---|" * len(mpis))
    least = []
    for collective in (name for name in LABEL if name in cases):
        for size, by_mpi in sorted(cases[collective].items()):
            ours = sorted(ours for _, ours, _ in by_mpi.values())
            cells = []
            for mpi in mpis:
                theirs, _, ratio = by_mpi.get(mpi, (None, None, None))
                cells += ["-", "-"] if theirs is None else [time_text(theirs), f"{ratio:.2f}"]
            least.append(min(ratio for _, _, ratio in by_mpi.values()))
            print("|", " | ".join([LABEL[collective], size_text(size), time_text(ours[len(ours) // 2]), *cells]), "|")
    below = sum(ratio < 0.95 for ratio in least)
    print(f"\nAgainst the fastest of them in each row: geometric mean {geometric_mean(least):.2f}, least {min(least):.2f}; "
          f"below 0.95 in {below} of {len(least)} rows.\n")


def bound_table(bound, cases):
    """UCX's messages alone against the fastest MPI of each row, and libsccl beside them."""
    print("## UCX alone\n")
    print("The same calls by a program that does nothing but send and take UCX's active messages (bench/hosts/ucx_alone.cc), with libsccl's "
          "settings of UCX, beside the same MPIs. `By UCX alone`: libsccl's ratio by that of UCX alone. "
          "Both were measured one after the other. Where this is above 1, UCX alone is no bound of what a library over it can reach.\n")
    print("| call | size | UCX alone, us | ratio against the fastest MPI | libsccl's | by UCX alone |")
    print("|---|---|---|---|---|---|")
    least, reached = [], []
    for collective in (name for name in LABEL if name in bound):
        for size, by_mpi in sorted(bound[collective].items()):
            ours = sorted(ours for _, ours, _ in by_mpi.values())
            ratio = min(ratio for _, _, ratio in by_mpi.values())
            least.append(ratio)
            cells = [LABEL[collective], size_text(size), time_text(ours[len(ours) // 2]), f"{ratio:.2f}"]
            if by_library := cases.get(collective, {}).get(size):
                library = min(ratio for _, _, ratio in by_library.values())
                reached.append(library / ratio)
                cells += [f"{library:.2f}", f"{reached[-1]:.2f}"]
            else:
                cells += ["-", "-"]
            print("|", " | ".join(cells), "|")
    print(f"\nUCX alone against the fastest MPI in each row: geometric mean {geometric_mean(least):.2f}, least {min(least):.2f}; below 0.95 in "
          f"{sum(ratio < 0.95 for ratio in least)} of {len(least)} rows."
          + (f" libsccl's ratio by that of UCX alone: geometric mean {geometric_mean(reached):.2f}.\n" if reached else "\n"))


def plot_of(cases):
    """A row for each collective, a panel for each number of ranks."""
    rows = []
    for collective in (name for name in LABEL if any(name in by_name for by_name in cases.values())):
        rows.append([(f"{LABEL[collective]}, 2 hosts of {count}",
                      {PEER[mpi]: {size: by_mpi[mpi][2] for size, by_mpi in cases[count][collective].items() if mpi in by_mpi} for mpi in PEER})
                     for count in sorted(cases)])
    return plot(rows, PEER.values(), f"float32, both hosts on {os.cpu_count()} cores")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--command", default="bench/hosts/run.sh")
    parser.add_argument("--load", type=float, default=0, help="of other programs, before the first run")
    parser.add_argument("--tcp", default="", help="the congestion control of both hosts")
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    cases, bound, versions = read(arguments.files)
    if not cases:
        sys.exit("nothing was measured")
    print("# Two hosts\n")
    print(f"`{arguments.command.strip()}`\n")
    print(f"Two network namespaces of one machine with {os.cpu_count()} cores, joined by a pair of virtual interfaces ({platform.machine()}, Linux "
          f"{platform.release()}); libsccl over UCX on TCP{' with ' + arguments.tcp if arguments.tcp else ''}. Both hosts share these cores and the kernel moves every byte with them, so the figures "
          "say how the libraries compare, not what two machines reach. Blocks of calls of libsccl and of the MPI alternate in the same "
          "processes; times are medians, a ratio is the MPI's time by libsccl's, the median over neighbouring blocks: above 1 libsccl is faster. "
          "libsccl's time is the median of its runs beside each MPI.\n")
    load = arguments.load
    if load > 1.5 * (os.cpu_count() or 1):
        print(busy_text(load))
    print("Versions: " + "; ".join(f"{PEER[mpi]}: {text}" for mpi, text in sorted(versions.items())) + "\n")
    for count in sorted(cases):
        mpis = [mpi for mpi in PEER if any(mpi in by_mpi for sizes in cases[count].values() for by_mpi in sizes.values())]
        print(f"## {'One rank' if count == 1 else f'{count} ranks'} on each host\n")
        table(cases[count], mpis)
        if count == 1 and bound:
            bound_table(bound, cases[count])
    if arguments.svg:
        arguments.svg.write_text(plot_of(cases))
        print(f"![Ratios over sizes]({arguments.svg.name})")


main()
