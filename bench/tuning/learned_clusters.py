#!/usr/bin/env python3
"""Writes docs/results/learned_clusters.md: how well the learned dispatcher answers on numbers of hosts and sizes that it
has not seen. Nothing is measured: times are predicted, as sccl plan predicts them.

Usage: learned_clusters.py [BUILD] [--out FILE] [OPTIONS OF sccl tune --topo...]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=root / "build/release", type=pathlib.Path)
parser.add_argument("--out", default=root / "docs/results/learned_clusters.md", type=pathlib.Path)
arguments, more = parser.parse_known_args()
NAMES = {"allreduce": "AllReduce", "allgather": "AllGather", "reducescatter": "ReduceScatter", "broadcast": "Broadcast"}

defaults = {"--topo": "dgx-a100,dgx-h100,dgx1v,mi300x,mi250x", "--collectives": "all_gather,reduce_scatter,all_reduce,broadcast",
            "--devices-per-host": "0,4,2"}
sweep = [word for option, value in defaults.items() if option not in more for word in (option, value)] + more
with tempfile.TemporaryDirectory() as cache:
    result = subprocess.run([str(arguments.build / "src/tools/sccl"), "tune", *sweep, "--json"], capture_output=True, text=True,
                            env={**os.environ, "SCCL_CACHE_DIR": cache})
if result.returncode != 0:
    sys.exit(f"sccl tune: exit {result.returncode}: {result.stderr}")
rows = json.loads(result.stdout)

lines = [f"""# The learned dispatcher on clusters

`bench/tuning/learned_clusters.py` runs `sccl tune {' '.join(sweep)}`. Nothing here was run on a cluster.

One support vector machine for each kind of host and collective, as in PCCL (IV-C, Table I), over the logarithms of bytes, hosts and ranks of a host. It is trained on predicted times (simulations up to 32 ranks, above that of one host that stands for all where hosts do alike, else the closed form of composites) of 2, 4, 8 ... 256 hosts and sizes from 64 KiB to 1 GiB by powers of two. The test has the numbers of hosts 3, 6, 12 ... 192 and the sizes between two trained ones: neither was trained. The paper tests on a fifth of its configurations, drawn at random: 75 to 95 % correct.

A label is a whole schedule, such as `levels/ring+one-hop/8`: shape between hosts, schedule on the hosts, frames. Labels within 5 % of the least time count as equal (`src/tools/tuning/cluster_tuning.h`). The loss is how much longer the answer takes than the fastest schedule, geometric mean and worst over the test.

What falls short: labels change where predictions cross, and a machine that has not seen the number of hosts places these borders only roughly; the worst loss is there. Some answers name a schedule that this number of hosts does not have ("no such schedule"): then the fastest by prediction serves. Prediction alone, the default, has no loss by this measure; what was learned pays where measured times take the place of predicted ones.
""",
         "| hosts of | collective | trained | labels | test size | correctly classified | accuracy (%) | mean loss (%) | worst (%) | no such schedule |",
         "|---|---|---|---|---|---|---|---|---|---|"]
for row in rows:
    lines.append(f"| {row['topology']} | {NAMES.get(row['collective'], row['collective'])} | {row['configurations']} | {row['classes']} | "
                 f"{row['test_size']} | {row['correct']} | {row['accuracy']:.1f} | {100 * (row['loss'] - 1):.2f} | "
                 f"{100 * (row['worst_loss'] - 1):.1f} | {row['impossible']} |")
tested = sum(row["test_size"] for row in rows)
correct = sum(row["correct"] for row in rows)
lines.append(f"| all | | {sum(row['configurations'] for row in rows)} | | {tested} | {correct} | {100 * correct / tested:.1f} | | | "
             f"{sum(row['impossible'] for row in rows)} |\n")
arguments.out.write_text("\n".join(lines))
