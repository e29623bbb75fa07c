#!/usr/bin/env python3
"""Predicted against measured on the host platform; prints Markdown.

Calibration is by other calls than those foreseen, between two ranks: `broadcast` and `reduce` give, for each size, the
rates at which a receiver empties a slot or adds from it, `alltoall`, in which both fill and empty slots, what is left for
filling them; `sendrecv` of eight bytes gives the latency, on one core that of a switch.
What is predicted is AllReduce and AllGather, which are not among these, by `sccl simulate`. Measurements are interleaved
and repeated; the best of each counts, because other programs only ever slow a call down. See --help.
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=root / "build/release", type=pathlib.Path)
parser.add_argument("--repeats", type=int, default=5)
parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4, 8])
parser.add_argument("--most-mib", type=float, default=64, help="of the sizes 64 KiB, 256 KiB, ... 64 MiB")
parser.add_argument("--most-iterations", type=int, default=20, help="calls of one measurement: few find the quiet moments of a busy machine")
arguments = parser.parse_args()
sccl = arguments.build / "src/tools/sccl"
repeats = arguments.repeats
cores = len(os.sched_getaffinity(0))
KIB, MIB = 1 << 10, 1 << 20
SIZES = [size for size in (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB) if size <= arguments.most_mib * MIB]
RANKS = arguments.ranks
ALGORITHMS = {"all_reduce": ["ring", "one-hop", "recursive"], "all_gather": ["ring", "one-hop", "recursive"]}
COLLECTIVES = {"all_reduce": "allreduce", "all_gather": "allgather"}


def perf(collective, ranks, size, algorithm=None, core_list=None):
    """Microseconds of a call, out of place. Sizes are those of the largest buffer, as in nccl-tests."""
    iterations = max(2, min(arguments.most_iterations, (16 * MIB) // (size * ranks)))
    command = [str(sccl), "perf", collective, "-n", str(ranks), "-b", str(size), "-e", str(size), "-i", str(iterations),
               "-w", "2", "-c", "0", "--json"]
    if algorithm:
        command += ["--algo", algorithm]
    if core_list is not None:
        command = ["taskset", "-c", core_list, *command]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rows"]
    return min(row["us"] for row in rows if row["place"] == "out-of-place")


def calibrate():
    alpha = perf("sendrecv", 2, 8)
    switch = perf("sendrecv", 2, 8, core_list="0") / 2
    rates = {}
    for size in SIZES:
        gbytes = lambda us: size / max(us - alpha, 0.2 * us) / 1e3
        copy, both = gbytes(perf("broadcast", 2, size, "ring")), gbytes(perf("alltoall", 2, size, "one-hop"))
        # Of `size` bytes a rank sends half and keeps half, which it copies in place of its own.
        rates[size] = {"copy": copy, "add": gbytes(perf("reduce", 2, size, "ring")),
                       "fill": 1 / max(2 / both - 2 / copy, 0.5 / copy)}
    return {"alpha": alpha, "switch": switch, "rates": rates}


def nearest(rates, size):
    return rates[min(rates, key=lambda known: abs(known - size))]


def predict(collective, algorithm, ranks, size, figures, folder):
    call_bytes = size if collective == "all_reduce" else size // ranks
    rates = nearest(figures["rates"], size)
    topology = {"name": f"host:{ranks}", "ranks": ranks, "switches": 0, "links": [
        {"src": a, "dst": b, "lanes": 1, "gbytes_per_s": rates["fill"], "alpha_us": figures["alpha"], "class": "shm"}
        for a in range(ranks) for b in range(ranks) if a != b]}
    path = os.path.join(folder, "topology.json")
    with open(path, "w") as file:
        json.dump(topology, file)
    command = [str(sccl), "simulate", "--topo", path, "--collective", COLLECTIVES[collective], "--bytes", str(call_bytes),
               "--algo", algorithm, "--cores", str(min(cores, ranks)), "--copy-gbytes-per-s", str(rates["copy"]),
               "--reduce-gbytes-per-s", str(rates["add"]), "--json"]
    if ranks > cores:
        command += ["--switch-us", str(figures["switch"])]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["time_us"]


def cases():
    for collective, ranks, size in itertools.product(ALGORITHMS, RANKS, SIZES):
        for algorithm in ALGORITHMS[collective]:
            if collective == "all_gather" and algorithm == "recursive" and ranks & (ranks - 1):
                continue
            yield collective, ranks, size, algorithm


def best_figures(all_figures):
    least = lambda get: min(get(one) for one in all_figures)
    most = lambda get: max(get(one) for one in all_figures)
    return {"alpha": least(lambda one: one["alpha"]), "switch": least(lambda one: one["switch"]),
            "rates": {size: {kind: most(lambda one: one["rates"][size][kind]) for kind in all_figures[0]["rates"][size]}
                      for size in SIZES}}


def size_text(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def ordered_right(measured, predicted, tolerance=0.05):
    """Pairs of algorithms in the measured order; pairs closer than the tolerance have none."""
    right = pairs = 0
    for a, b in itertools.combinations(sorted(measured), 2):
        if abs(measured[a] - measured[b]) < tolerance * max(measured[a], measured[b]):
            continue
        pairs += 1
        right += (measured[a] < measured[b]) == (predicted[a] < predicted[b])
    return right, pairs


def main():
    measured = {case: [] for case in cases()}
    calibrations = []
    for _ in range(repeats):
        calibrations.append(calibrate())
        for case in measured:
            collective, ranks, size, algorithm = case
            measured[case].append(perf(collective, ranks, size, algorithm))
    figures = best_figures(calibrations)
    with tempfile.TemporaryDirectory() as folder:
        predicted = {case: predict(*case[:1], case[3], case[1], case[2], figures, folder) for case in measured}
    best = {case: min(times) for case, times in measured.items()}
    report(figures, best, predicted)


def report(figures, measured, predicted):
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    print("# Predicted against measured on the host\n")
    print(f"Command: `bench/predict/predict.py`, {repeats} interleaved repetitions, the best of each, on {cores} cores ({model}); "
          f"load average {os.getloadavg()[2]:.0f}.")
    print("Figures of the model are measured with other calls between two ranks (`broadcast`, `reduce`, `alltoall`, `sendrecv`); "
          "AllReduce and AllGather are predicted from them by `sccl simulate`.\n")
    print(f"alpha {figures['alpha']:.2f} us; on one core, a switch of ranks {figures['switch']:.2f} us.\n")
    print("| bytes | empties a slot GB/s | adds from a slot GB/s | fills a slot GB/s |\n|---|---|---|---|")
    for size, rates in figures["rates"].items():
        print(f"| {size_text(size)} | {rates['copy']:.2f} | {rates['add']:.2f} | {rates['fill']:.2f} |")
    errors = {case: abs(predicted[case] / measured[case] - 1) for case in measured}
    groups = {"ranks <= cores": [case for case in measured if case[1] <= cores],
              "ranks > cores": [case for case in measured if case[1] > cores]}
    print("\n| | cases | median error | within 25 % | order of algorithms right |\n|---|---|---|---|---|")
    for name, group in groups.items():
        if not group:
            continue
        right = pairs = 0
        for collective, ranks, size in sorted({case[:3] for case in group}):
            of = [case for case in group if case[:3] == (collective, ranks, size)]
            more = ordered_right({case[3]: measured[case] for case in of}, {case[3]: predicted[case] for case in of})
            right, pairs = right + more[0], pairs + more[1]
        within = sum(errors[case] <= 0.25 for case in group)
        print(f"| {name} | {len(group)} | {100 * statistics.median(errors[case] for case in group):.0f} % | "
              f"{within} of {len(group)} | {right} of {pairs} pairs |")
    print("\nPairs of algorithms whose measured times differ by less than 5 % have no order.\n")
    print("| collective | ranks | bytes | algorithm | measured us | predicted us | error |\n|---|---|---|---|---|---|---|")
    for case in measured:
        collective, ranks, size, algorithm = case
        print(f"| {collective} | {ranks} | {size_text(size)} | {algorithm} | {measured[case]:.1f} | {predicted[case]:.1f} | "
              f"{100 * (predicted[case] / measured[case] - 1):+.0f} % |")


if __name__ == "__main__":
    main()
