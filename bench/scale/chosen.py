"""docs/results/scale_chosen.md: how much longer than the best candidate the one takes that sccl plan chooses where clusters
have too many ranks to simulate all candidates. Little and middling data; scale.py has large data.

Usage: chosen.py --sccl COMMAND [--out docs/results/scale_chosen.md]
The candidates that are foreseen to take at most 2.5 times as long are simulated, 20 at most.
"""
import argparse
import json
import math
import os
import subprocess

MIB = 1 << 20
CLUSTERS = ["8*dgx-h100", "8*dgx1p", "16*nvpairs4", "4*mi250x", "5*dgx1v", "16*dgx1p", "32*pcie4"]
SIZES = [0.25, 1, 4, 16]
COLLECTIVES = ["allgather", "reducescatter", "allreduce", "broadcast", "reduce"]
SHARE = {"allgather"}   # --bytes is one rank's part of the result
MOST, FACTOR = 20, 2.5


def answer(sccl, *arguments):
    done = subprocess.run([sccl, *arguments, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def cell(sccl, cluster, collective, mib):
    """The chosen one's simulated time over that of the best, and its foreseen time over its simulated one."""
    ranks = answer(sccl, "plan", "--topo", cluster, "--collective", collective, "--bytes", "1M")["ranks"]
    buffer = int(mib * MIB) // (ranks if collective in SHARE else 1)
    call = ["--topo", cluster, "--collective", collective, "--bytes", str(buffer)]
    candidates = answer(sccl, "plan", *call)["candidates"]
    times = []
    for one in candidates[:MOST]:
        if one["time_us"] > FACTOR * candidates[0]["time_us"]:
            break
        made = answer(sccl, "simulate", *call, "--algo", one["algo"], "--slice", str(int(one["slice_bytes"])))
        if made.get("simulated", True):
            times.append(made["time_us"])
    return candidates[0]["algo"], times[0] / min(times), candidates[0]["time_us"] / times[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sccl", required=True)
    parser.add_argument("--out", default="docs/results/scale_chosen.md")
    options = parser.parse_args()
    sccl = os.path.abspath(options.sccl)
    lines = ["# Chosen, and the best of those that were simulated on all ranks\n",
             f"`bench/scale/chosen.py --sccl {options.sccl} --out {options.out}`: simulations, nothing here was run on a cluster.\n",
             "For 40 to 128 ranks and so many MiB on every rank: the time of what `sccl plan` chooses, simulated on all ranks, over that of the best "
             f"candidate (of at most {MOST}); in brackets the chosen one's foreseen time over its simulated one.\n",
             "| hosts | MiB | " + " | ".join(COLLECTIVES) + " |", "|---|---|" + "---|" * len(COLLECTIVES)]
    over = {one: [] for one in COLLECTIVES}
    for cluster in CLUSTERS:
        for mib in SIZES:
            row = []
            for collective in COLLECTIVES:
                _, longer, foreseen = cell(sccl, cluster, collective, mib)
                over[collective].append(longer)
                row.append(f"{longer:.2f} ({foreseen:.2f})")
            lines.append(f"| {cluster} | {mib:g} | " + " | ".join(row) + " |")
    mean = lambda values: math.exp(sum(map(math.log, values)) / len(values))
    lines.append("| geometric mean | | " + " | ".join(f"{mean(over[one]):.3f}" for one in COLLECTIVES) + " |")
    with open(options.out, "w") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
