"""Random clusters of the kinds that jobs meet, and how far above the lower bound the plans for them are: parts of presets
(hosts of different size), hosts of eight devices with two NICs, racks with links of their own. The same seed gives the same
clusters. Usage: random_clusters.py --sccl build/release/src/tools/sccl [--seed N] [--clusters N] [--out FILE.md]"""
import argparse
import json
import os
import random
import tempfile

import scale

PRESETS = {"dgx1v": 8, "dgx1p": 8, "dgx-a100": 8, "dgx2": 16, "mi300x": 8, "z52": 8, "pcie8": 8, "dgx-h100": 8}
COLLECTIVES = ("allgather", "reducescatter", "allreduce", "broadcast", "reduce")
SIZES_MIB = (64, 256)
TARGET = 1.10


def parts_of_presets(draw):
    preset, hosts = draw.choice(list(PRESETS)), draw.randint(2, 4)
    each = PRESETS[preset]
    devices = [host * each + device for host in range(hosts) for device in sorted(draw.sample(range(each), draw.randint(2, each)))]
    return f"{hosts}*{preset}", devices, len(devices)


def few_nics(draw):
    machine = scale.Machine("two NICs", 8, 2, draw.choice([12.5, 25, 50]), draw.choice([40, 80, 150, 300]), draw.choice([3, 5, 10]))
    hosts = draw.choice([2, 3, 5, 7, 9, 12])
    return machine.topology(hosts), None, 8 * hosts


def racks(draw):
    devices, nics = draw.choice([(4, 2), (8, 4), (4, 4), (8, 8), (8, 2)])
    count, alike, most = draw.choice([2, 2, 3, 4, 5]), draw.random() < 0.6, draw.randint(2, 6)
    sizes = [most] * count if alike else [draw.randint(1, 5) for _ in range(count)]
    nic_gbytes = draw.choice([12.5, 25, 50])
    machine = scale.Machine("racks", devices, nics, nic_gbytes, draw.choice([60, 100, 200, 300]), 5)
    part, own_rate = draw.choice([0.125, 0.25, 0.5, 1.0]), draw.random() < 0.7
    uplinks = [max(5, part * (size if own_rate else max(sizes)) * nics * nic_gbytes) for size in sizes]
    return scale.racked(machine, sizes, uplinks), None, devices * sum(sizes)


KINDS = {"parts of presets": parts_of_presets, "eight devices, two NICs": few_nics, "racks": racks}


def ratios(sccl, topology, devices, ranks, folder):
    """Predicted time over the bound, by collective and size."""
    if not isinstance(topology, str):
        path = os.path.join(folder, "topology.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(topology, file)
        topology = path
    chosen = ["--devices", ",".join(map(str, devices))] if devices else []
    for collective in COLLECTIVES:
        for mib in SIZES_MIB:
            buffer = mib * scale.MIB // (ranks if collective in scale.SHARE else 1)
            answer, _ = scale.planned(sccl, ["--topo", topology, *chosen, "--collective", collective, "--bytes", str(buffer), "--bound"])
            best = answer["candidates"][0]
            yield collective, best["time_us"] / best["bound_us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sccl", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clusters", type=int, default=16, help="of each kind")
    parser.add_argument("--out")
    options = parser.parse_args()
    lines = ["# Random clusters: predicted time over the bound", "",
             f"`python3 bench/scale/random_clusters.py --sccl build/release/src/tools/sccl --seed {options.seed} --clusters {options.clusters}`", "",
             f"{options.clusters} clusters of each kind, buffers of {' and '.join(map(str, SIZES_MIB))} MiB on every rank. A cell has the greatest",
             f"of all, and how many of {len(SIZES_MIB) * options.clusters} plans are above {TARGET:.2f}.", "",
             "| clusters | " + " | ".join(COLLECTIVES) + " |", "|---|" + "---|" * len(COLLECTIVES)]
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in KINDS.items():
            found = {collective: [] for collective in COLLECTIVES}
            for _ in range(options.clusters):
                for collective, ratio in ratios(options.sccl, *kind(draw), folder):
                    found[collective].append(ratio)
            lines.append(f"| {name} | " + " | ".join(f"{max(all_of):.2f}, {sum(one > TARGET for one in all_of)}" for all_of in found.values()) + " |")
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
