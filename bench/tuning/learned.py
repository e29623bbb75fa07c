#!/usr/bin/env python3
"""Writes docs/results/learned.md: how often the learned dispatcher (sccl tune) answers as the measurement does.

Usage: learned.py [BUILD] [--out FILE] [OPTIONS OF sccl tune...]
Measures in a cache of its own, so that what this machine has learned stays.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=root / "build/release", type=pathlib.Path)
parser.add_argument("--out", default=root / "docs/results/learned.md", type=pathlib.Path)
arguments, more = parser.parse_known_args()
NAMES = {"allreduce": "AllReduce", "allgather": "AllGather", "reducescatter": "ReduceScatter", "broadcast": "Broadcast"}

defaults = {"--ranks": "2,3,4,6,8", "-b": "64", "-e": "4M"}
sweep = [word for option, value in defaults.items() if option not in more for word in (option, value)] + more
begin = time.monotonic()
with tempfile.TemporaryDirectory() as cache:
    result = subprocess.run([str(arguments.build / "src/tools/sccl"), "tune", *sweep, "--json"], capture_output=True, text=True,
                            env={**os.environ, "SCCL_CACHE_DIR": cache})
if result.returncode != 0:
    sys.exit(f"sccl tune: exit {result.returncode}: {result.stderr}")
rows = json.loads(result.stdout)
total = [sum(row[key] for row in rows) for key in ("configurations", "test_size", "correct")]
if total[1] == 0:
    sys.exit("nothing was kept for the test: measure more sizes or numbers of ranks")

lines = [f"# The learned dispatcher\n\n`sccl tune {' '.join(sweep)}` on {len(os.sched_getaffinity(0))} cores, {datetime.date.today()}, in "
         f"{time.monotonic() - begin:.0f} s: for every size and number of ranks the schedules and protocols take turns, the least time of "
         "each counts, and the label is the fastest, or of several within 5% the one that the library names first. A fifth of each label's configurations, kept back, is the test; a support vector "
         "machine with radial basis functions over the logarithms of bytes and ranks is trained on the rest, its parameters by "
         "cross-validation (PCCL, IV-C and Table I). Where schedules are nearly equally fast the label is chance, which cannot be learned "
         "and costs little: the last column is the time of the answer by that of the fastest, the geometric mean over the test.\n",
         "| collective | configurations | labels | test size | correctly classified | accuracy (%) | time of the answer |\n|---|---|---|---|---|---|---|"]
for row in rows:
    lines.append(f"| {NAMES.get(row['collective'], row['collective'])} | {row['configurations']} | {row['classes']} | {row['test_size']} | "
                 f"{row['correct']} | {row['accuracy']:.1f} | {row['loss']:.3f} |")
lines.append(f"| all | {total[0]} | | {total[1]} | {total[2]} | {100 * total[2] / total[1]:.1f} | |\n")
arguments.out.write_text("\n".join(lines))
