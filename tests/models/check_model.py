#!/usr/bin/env python3
"""Checks one Promela model, and that the checker finds every mutation that the model names.

usage: check_model.py MODEL.pml [MUTANT...]

A line `MUTANT name: ...` in the model's head names a mutation: the model with -Dname must be refuted, by a failed
assertion or by ranks that wait for ever. Exits with 77 (skipped) without spin.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
LIMIT_SECONDS = 100
MOST_STEPS = 2000000  # of one run; deeper ones are told as not searched


def search(model, folder, mutant):
    """What the checker says of the model under one mutation (None: as it stands), and the number of states."""
    defines = [f"-D{mutant}"] if mutant else []
    run = lambda *command: subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    made = run("spin", *defines, "-a", model)
    if made.returncode != 0 or not os.path.exists(os.path.join(folder, "pan.c")):
        sys.exit(f"{model}: spin failed:\n{made.stdout}{made.stderr}")
    # -DSAFETY: assertions and invalid end states; the depth-first search needs no cycles. A mutant is found soon, so that
    # its checker is mostly compiled.
    built = run("cc", "-O0" if mutant else "-O1", "-w", "-DSAFETY", "-DMEMLIM=2000", "-DVECTORSZ=4096", "-o", "pan", "pan.c")
    if built.returncode != 0:
        sys.exit(f"{model}: the checker does not compile:\n{built.stderr}")
    words = run(os.path.join(folder, "pan"), "-n", f"-m{MOST_STEPS}").stdout
    errors = re.search(r"errors: (\d+)", words)
    states = re.search(r"([\d.e+]+) states, stored", words)
    if not errors or "max search depth too small" in words or (errors.group(1) == "0" and "Search not completed" in words):
        sys.exit(f"{model}: the search did not end:\n{words}")
    if errors.group(1) == "0":
        return "right", states.group(1)
    reason = re.search(r"pan:\d+: (.*?) \(at depth", words)
    return reason.group(1), states.group(1)


def main():
    model = os.path.abspath(sys.argv[1])
    if not shutil.which("spin"):
        print("skipped: spin is not installed (scripts/setup.sh)")
        return SKIPPED
    with open(model, encoding="utf-8") as file:
        mutants = re.findall(r"^ \* MUTANT (\w+):", file.read(), re.MULTILINE)
    if not mutants:
        sys.exit(f"{model} names no mutant, so that nothing shows what the checker would find")
    wrong = 0
    for mutant in sys.argv[2:] or [None, *mutants]:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            verdict, states = search(model, folder, mutant)
        found = verdict != "right"
        good = found == (mutant is not None)
        wrong += not good
        print(f"{'ok' if good else 'FAILED':6} {mutant or 'the model':24} {verdict} "
              f"({states} states, {time.monotonic() - began:.1f} s)", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
