"""python -m sccl demo [--ranks N]: data-parallel training on N processes, with nothing but Python and this package.

Each rank holds a share of the samples of a regression and computes its part of the gradient; an AllReduce through the
preloaded library adds the parts. The result must be what one process finds. Where PyTorch is installed, the backend is
tried as well."""
import argparse
import ctypes
import importlib.util
import math
import os
import subprocess
import sys
import tempfile
import time

from . import command_path, library_path

FLOAT64, SUM = 8, 0
SAMPLES, WEIGHTS, STEPS, RATE = 240, 8, 200, 0.1


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def sample(index):
    inputs = [math.sin(1.7 * index + 2.3 * place) for place in range(WEIGHTS)]
    return inputs, sum((place - 3.5) * value for place, value in enumerate(inputs))


def train(share, add):
    weights = [0.0] * WEIGHTS
    gradient = (ctypes.c_double * WEIGHTS)()
    for _ in range(STEPS):
        for place in range(WEIGHTS):
            gradient[place] = 0.0
        for inputs, wanted in share:
            error = sum(weight * value for weight, value in zip(weights, inputs)) - wanted
            for place, value in enumerate(inputs):
                gradient[place] += error * value / SAMPLES
        add(gradient)
        weights = [weight - RATE * slope for weight, slope in zip(weights, gradient)]
    return weights


def communicator(nccl, rank, ranks, folder):
    unique = UniqueId()
    path = os.path.join(folder, "id")
    if rank == 0:
        nccl.ncclGetUniqueId(ctypes.byref(unique))
        with open(path + ".part", "wb") as file:
            file.write(bytes(unique))
        os.rename(path + ".part", path)
    while not os.path.exists(path):
        time.sleep(0.005)
    with open(path, "rb") as file:
        unique = UniqueId.from_buffer_copy(file.read())
    made = ctypes.c_void_p()
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    if nccl.ncclCommInitRank(ctypes.byref(made), ranks, unique, rank) != 0:
        nccl.ncclGetLastError.restype = ctypes.c_char_p
        raise SystemExit(nccl.ncclGetLastError(None).decode())
    return made


def run_rank(folder):
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    nccl = ctypes.CDLL("libnccl.so.2")  # whatever the process is given under NCCL's name
    made = communicator(nccl, rank, ranks, folder)

    def add(values):
        result = nccl.ncclAllReduce(values, values, ctypes.c_size_t(WEIGHTS), FLOAT64, SUM, made, None)
        assert result == 0, result

    weights = train([sample(index) for index in range(rank, SAMPLES, ranks)], add)
    nccl.ncclCommDestroy(made)
    if rank == 0:
        alone = train([sample(index) for index in range(SAMPLES)], lambda values: None)
        difference = max(abs(mine - other) for mine, other in zip(weights, alone))
        mapped = {line.split()[-1] for line in open("/proc/self/maps", encoding="ascii", errors="replace") if "libsccl" in line or "libnccl" in line}
        print(f"trained on {ranks} ranks through {', '.join(sorted(mapped))}")
        print(f"largest difference to one process: {difference:.1e}")
        if difference > 1e-9:
            raise SystemExit("the ranks found something else than one process")


def try_torch():
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: the backend `sccl` of torch.distributed was not tried")
        return
    code = ("import torch, torch.distributed as dist, sccl.torch, tempfile, os\n"
            "dist.init_process_group('sccl', init_method='file://' + tempfile.mktemp(), rank=0, world_size=1)\n"
            "tensor = torch.ones(4); dist.all_reduce(tensor); dist.destroy_process_group()\n"
            "print('PyTorch', torch.__version__, 'takes the backend sccl')\n")
    subprocess.run([sys.executable, "-c", code], check=True)


def main():
    parser = argparse.ArgumentParser(prog="python -m sccl demo", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--as-rank-in", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_rank_in:
        run_rank(arguments.as_rank_in)
        return
    print(f"library: {library_path()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([command_path(), "run", "-n", str(arguments.ranks), "--", sys.executable, "-m", "sccl", "demo",
                        "--as-rank-in", folder], check=True)
    if not arguments.no_torch:
        try_torch()


if __name__ == "__main__":
    main()
