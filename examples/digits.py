#!/usr/bin/env python3
"""Data-parallel training of a small network on handwritten digits over NCCL.

Every rank is a process, holds the same weights and computes the gradient of its share of each batch; an AllReduce per
parameter sums the gradients. NCCL is called through ctypes as vLLM's wrapper does it, on host buffers. The program uses
whatever `libnccl.so.2` it is given.
"""
import argparse
import ctypes
import os
import sys
import time

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402  (the thread limits must stand first)
from sklearn.datasets import load_digits  # noqa: E402

BATCH = 240
EPOCHS = 60
RATE = 0.5
HIDDEN = 96


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Nccl:
    """The functions this program uses, by name, result and arguments."""

    FLOAT32, UINT8, SUM = 7, 1, 0
    FUNCTIONS = [
        ("ncclGetErrorString", ctypes.c_char_p, [ctypes.c_int]),
        ("ncclGetLastError", ctypes.c_char_p, [ctypes.c_void_p]),
        ("ncclGetVersion", ctypes.c_int, [ctypes.POINTER(ctypes.c_int)]),
        ("ncclGetUniqueId", ctypes.c_int, [ctypes.POINTER(UniqueId)]),
        ("ncclCommInitRank", ctypes.c_int, [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int]),
        ("ncclAllReduce", ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                         ctypes.c_void_p, ctypes.c_void_p]),
        ("ncclAllGather", ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                         ctypes.c_void_p, ctypes.c_void_p]),
        ("ncclBroadcast", ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                         ctypes.c_void_p, ctypes.c_void_p]),
        ("ncclCommDestroy", ctypes.c_int, [ctypes.c_void_p]),
    ]

    def __init__(self):
        try:
            library = ctypes.CDLL("libnccl.so.2")
        except OSError as error:
            sys.exit(f"no libnccl.so.2 can be loaded ({error}): preload one, for instance LD_PRELOAD=.../libsccl.so")
        for name, result, arguments in self.FUNCTIONS:
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def check(self, result):
        if result != 0:
            text = self.ncclGetErrorString(result).decode()
            sys.exit(f"NCCL error: {text}: {self.ncclGetLastError(None).decode()}")

    def version(self):
        version = ctypes.c_int()
        self.check(self.ncclGetVersion(ctypes.byref(version)))
        return version.value

    def unique_id(self):
        unique_id = UniqueId()
        self.check(self.ncclGetUniqueId(ctypes.byref(unique_id)))
        return unique_id

    def communicator(self, ranks, unique_id, rank):
        comm = ctypes.c_void_p()
        self.check(self.ncclCommInitRank(ctypes.byref(comm), ranks, unique_id, rank))
        return comm

    def sum_in_place(self, array, comm):
        self.check(self.ncclAllReduce(array.ctypes.data, array.ctypes.data, array.size, self.FLOAT32, self.SUM, comm, None))


def load_data():
    digits = load_digits()
    images = (digits.data / 16.0).astype(np.float32)
    order = np.random.default_rng(7).permutation(len(images))
    images, labels = images[order], digits.target[order]
    split = len(images) * 4 // 5
    return (images[:split], labels[:split]), (images[split:], labels[split:])


def initial_weights():
    random = np.random.default_rng(3)
    return [
        (random.standard_normal((64, HIDDEN)) / 8.0).astype(np.float32),
        np.zeros(HIDDEN, np.float32),
        (random.standard_normal((HIDDEN, 10)) / np.sqrt(HIDDEN)).astype(np.float32),
        np.zeros(10, np.float32),
    ]


def forward(weights, images):
    hidden = np.maximum(images @ weights[0] + weights[1], 0)
    scores = hidden @ weights[2] + weights[3]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def gradient_sums(weights, images, labels):
    """Gradients of the summed loss; the caller divides by the size of the whole batch."""
    hidden, probabilities = forward(weights, images)
    probabilities[np.arange(len(labels)), labels] -= 1
    back = (probabilities @ weights[2].T) * (hidden > 0)
    sums = [images.T @ back, back.sum(axis=0), hidden.T @ probabilities, probabilities.sum(axis=0)]
    return [np.ascontiguousarray(part, dtype=np.float32) for part in sums]


def train(data, rank, ranks, combine, progress):
    images, labels = data
    weights = initial_weights()
    order = np.random.default_rng(11)
    for epoch in range(EPOCHS):
        shuffled = order.permutation(len(images))
        for begin in range(0, len(images), BATCH):
            batch = shuffled[begin:begin + BATCH]
            mine = batch[rank::ranks]
            for weight, part in zip(weights, gradient_sums(weights, images[mine], labels[mine])):
                combine(part)
                weight -= RATE / len(batch) * part
        progress(epoch + 1, weights)
    return weights


def accuracy(weights, data):
    return float((forward(weights, data[0])[1].argmax(axis=1) == data[1]).mean())


def check_equal_everywhere(nccl, comm, weights, ranks):
    """Every rank sees every rank's weights, byte for byte."""
    mine = np.concatenate([weight.ravel() for weight in weights]).view(np.uint8)
    everyone = np.empty(ranks * mine.size, np.uint8)
    nccl.check(nccl.ncclAllGather(mine.ctypes.data, everyone.ctypes.data, mine.size, nccl.UINT8, comm, None))
    return bool((everyone.reshape(ranks, -1) == mine).all())


def check_single_process(weights, data):
    alone = train(data, 0, 1, lambda part: None, lambda epoch, now: None)
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in zip(alone, weights))


def run_rank(nccl, rank, ranks, unique_id):
    training, held_out = load_data()
    comm = nccl.communicator(ranks, unique_id, rank)
    on_terminal = rank == 0 and sys.stdout.isatty()

    def progress(epoch, weights):
        if on_terminal:
            print(f"\repoch {epoch}/{EPOCHS}  accuracy {accuracy(weights, held_out):.3f}", end="", flush=True)

    begin = time.monotonic()
    weights = train(training, rank, ranks, lambda part: nccl.sum_in_place(part, comm), progress)
    seconds = time.monotonic() - begin
    equal = check_equal_everywhere(nccl, comm, weights, ranks)
    nccl.check(nccl.ncclCommDestroy(comm))
    if rank != 0:
        return 0 if equal else 1

    difference = check_single_process(weights, training)
    score = accuracy(weights, held_out)
    if on_terminal:
        print()
    print(f"NCCL version {nccl.version()}, {ranks} ranks, {EPOCHS} epochs in {seconds:.1f} s")
    print(f"accuracy on {len(held_out[1])} held-out digits: {score:.3f}")
    print(f"weights of all ranks bit-identical: {'yes' if equal else 'NO'}")
    print(f"largest relative difference to the same training in one process: {difference:.1e}")
    return 0 if equal and score > 0.9 and difference < 1e-3 else 1


def run_as_processes(ranks, run):
    """Runs run(rank) as a process for each rank, which ends with what it returns. Returns the ranks that failed."""
    sys.stdout.flush()
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = run(rank)
            except SystemExit as ended:
                print(f"rank {rank}: {ended}", file=sys.stderr)
            finally:
                sys.stdout.flush()
                os._exit(code)
        children.append(child)
    return [rank for rank, child in enumerate(children) if os.waitpid(child, 0)[1] != 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    ranks = parser.parse_args().ranks
    nccl = Nccl()
    unique_id = nccl.unique_id()
    failed = run_as_processes(ranks, lambda rank: run_rank(nccl, rank, ranks, unique_id))
    if failed:
        sys.exit(f"failed: rank {failed}")


if __name__ == "__main__":
    main()
