#!/usr/bin/env python3
"""Data-parallel training in which one rank is slow: what it costs, and who it is.

    LD_PRELOAD=/path/to/libsccl.so examples/straggler.py --ranks 4 --late-ms 2

Trains the network of digits.py as it is, then with the last rank late by some milliseconds in every step, then the same
with SCCL_ARRIVAL=eager. Prints the time of a step, the time in which a rank is in AllReduces, and what the library says
of the slow rank (a line at NCCL_DEBUG=INFO, which libsccl writes)."""
import argparse
import glob
import os
import sys
import tempfile
import time

import digits

digits.EPOCHS = 200  # the library looks for a straggler once a second


def train_as(nccl, rank, ranks, unique_id, late_ms):
    training, _ = digits.load_data()
    comm = nccl.communicator(ranks, unique_id, rank)
    in_calls = 0.0
    steps = 0

    def combine(part):
        nonlocal in_calls, steps
        if late_ms > 0 and steps % 4 == 0 and rank == ranks - 1:  # four arrays make a step
            time.sleep(late_ms * 1e-3)
        steps += 1
        begin = time.perf_counter()
        nccl.sum_in_place(part, comm)
        in_calls += time.perf_counter() - begin

    begin = time.perf_counter()
    digits.train(training, rank, ranks, combine, lambda epoch, weights: None)
    seconds = time.perf_counter() - begin
    nccl.check(nccl.ncclCommDestroy(comm))
    if rank == 0:
        per_step = 1e3 * 4 / steps
        print(f"  {seconds * per_step:.2f} ms a step, {in_calls * per_step:.2f} ms of it in AllReduces at rank 0", flush=True)


def run(ranks, late_ms, form, logs):
    """All ranks as processes, with a form of SCCL_ARRIVAL; False when one of them fails."""
    os.environ.update(SCCL_ARRIVAL=form, NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=os.path.join(logs, "%p"))
    reader, writer = os.pipe()

    def run_rank(rank):
        nccl = digits.Nccl()
        unique_id = nccl.unique_id() if rank == 0 else digits.UniqueId()
        if rank == 0:
            os.write(writer, bytes(unique_id) * (ranks - 1))
        else:
            digits.ctypes.memmove(digits.ctypes.byref(unique_id), os.read(reader, 128), 128)
        train_as(nccl, rank, ranks, unique_id, late_ms)
        return 0

    failed = digits.run_as_processes(ranks, run_rank)
    os.close(reader)
    os.close(writer)
    return not failed


def told(logs):
    lines = [line for path in glob.glob(os.path.join(logs, "*")) for line in open(path) if " was last in " in line]
    return lines[-1].split("INFO ", 1)[1].strip() if lines else "nothing"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--late-ms", type=float, default=2)
    options = parser.parse_args()
    ends_well = True
    for late_ms, form in ((0, "never"), (options.late_ms, "never"), (options.late_ms, "eager")):
        print(f"{options.ranks} ranks, the last one {late_ms:g} ms late in every step, SCCL_ARRIVAL={form}:", flush=True)
        with tempfile.TemporaryDirectory() as logs:
            ends_well = run(options.ranks, late_ms, form, logs) and ends_well
            print(f"  the library says: {told(logs)}", flush=True)
    return 0 if ends_well else 1


if __name__ == "__main__":
    sys.exit(main())
