"""Instructions of a repeated AllReduce of 8 B and 1 KiB and of an init, counted by callgrind, for one or more builds of
the library. Usage: instructions.py BENCH_INSTRUCTIONS LIBRARY [LIBRARY ...]

One rank runs under callgrind and enters every call last, so that it waits for nobody (instructions_bench.cc). Two runs
with different numbers of calls are subtracted from each other: what remains belongs to the repeated call alone."""
import os
import re
import subprocess
import sys
import tempfile

BYTES_OF_SHARED = 2 << 20
# name, ranks, bytes (0: init), calls of the short and of the long run, function that is counted
CASES = [("AllReduce of 8 B, 2 ranks", 2, 8, 50, 250, "ncclAllReduce"),
         ("AllReduce of 1 KiB, 2 ranks", 2, 1024, 50, 250, "ncclAllReduce"),
         ("AllReduce of 8 B, 4 ranks", 4, 8, 50, 250, "ncclAllReduce"),
         ("init, 4 ranks", 4, 0, 2, 12, "ncclCommInitRank")]
# Nothing may depend on a clock or on what earlier runs have left.
SETTINGS = {"SCCL_TUNE": "off", "SCCL_STATUS": "0"}


def counted(program, library, ranks, size, calls, function):
    """Instructions of the counted rank in `function`."""
    with tempfile.TemporaryDirectory() as folder:
        shared = os.path.join(folder, "shared")
        with open(shared, "wb") as file:
            file.truncate(BYTES_OF_SHARED)
        environment = {**os.environ, **SETTINGS, "SCCL_CACHE_DIR": folder}
        command = lambda rank: [program, library, shared, str(rank), str(ranks), str(ranks - 1), str(calls), str(size)]
        others = [subprocess.Popen(command(rank), env=environment) for rank in range(ranks - 1)]
        run = subprocess.run(["valgrind", "--tool=callgrind", f"--toggle-collect={function}", "--callgrind-out-file=/dev/null",
                              *command(ranks - 1)], env=environment, text=True, capture_output=True)
        codes = [other.wait() for other in others]
    if run.returncode != 0 or any(codes):
        sys.exit(f"a rank failed: {codes}\n{run.stderr}")
    return int(re.search(r"Collected : (\d+)", run.stderr).group(1))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, libraries = os.path.abspath(sys.argv[1]), [os.path.abspath(path) for path in sys.argv[2:]]
    for name, ranks, size, short, long, function in CASES:
        found = []
        for library in libraries:
            more = counted(program, library, ranks, size, long, function)
            less = counted(program, library, ranks, size, short, function)
            found.append((more - less) / (long - short))
        ratio = f"  {found[-1] / found[0]:.3f}" if len(found) > 1 else ""
        print(f"{name:30}", *(f"{value:12.1f}" for value in found), ratio, flush=True)


main()
