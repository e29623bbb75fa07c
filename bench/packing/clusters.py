#!/usr/bin/env python3
"""Writes docs/results/packing_clusters.md: how near packings of clusters come to ForestColl's bound.

Usage: clusters.py [SCCL] [--out FILE]     (default build/release/src/tools/sccl)
"""
import argparse
import json
import pathlib
import subprocess
from fractions import Fraction

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("sccl", nargs="?", default=root / "build/release/src/tools/sccl", type=pathlib.Path)
parser.add_argument("--out", default=root / "docs/results/packing_clusters.md", type=pathlib.Path)
arguments = parser.parse_args()

PRESETS = ("dgx-a100", "dgx-h100", "dgx2", "dgx1v", "dgx1p", "mi250x", "mi300x", "z52", "z52-full", "pcie4", "pcie8", "nvpairs4")
HOSTS = (4, 16, 64, 256)
COLLECTIVES = ("allgather", "reducescatter", "allreduce", "broadcast")

lines = ["""# Trees on clusters

`bench/packing/clusters.py`: the rate of the trees of `sccl pack --topo HOSTS*PRESET` by the bound: ForestColl's for AllGather and ReduceScatter, Edmonds' for Broadcast, for AllReduce the best of a few partitions of the ranks (ranks, parts of hosts, hosts). 1 is proved optimal; "-" is not packed.

What falls short: where the links and the NIC of one device are the cut (dgx2, z52, pcie4, pcie8), data must come back to the root's host over the network, and for one root half of the rate is lost. Up to 32 ranks all links are packed at once there; of more, nothing else is tried. Where sets of links share bandwidth (z52-full), the packing of one host alone serves. These trees are not candidates of calls: composites are (`docs/results/scale.md`).
"""]
for collective in COLLECTIVES:
    lines += [f"## {collective}\n", "| preset | " + " | ".join(f"{hosts} hosts" for hosts in HOSTS) + " | rate of 16 hosts in lanes |",
              "|---" * (len(HOSTS) + 2) + "|"]
    for preset in PRESETS:
        cells, rate = [], "-"
        for hosts in HOSTS:
            result = subprocess.run([str(arguments.sccl), "pack", "--topo", f"{hosts}*{preset}", "--collective", collective, "--json"],
                                    capture_output=True, text=True, timeout=120)
            if result.returncode != 0:
                cells.append("-")
                continue
            answer = json.loads(result.stdout)
            share = Fraction(answer["rate_exact"]) / Fraction(answer["optimum_exact"])
            cells.append("1" if share == 1 else f"{float(share):.3f}")
            if hosts == 16:
                rate = answer["rate_exact"]
        lines.append(f"| {preset} | " + " | ".join(cells) + f" | {rate} |")
    lines.append("")
arguments.out.write_text("\n".join(lines))
