"""Other programs with the library: compute-sanitizer, PyTorch, nccl-tests. Parts of gpu_check.py."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

from gpu_jobs import SCRIPT, Told, outputs_of

HERE = pathlib.Path(__file__).resolve().parent


def sanitizer(report, options):
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not tool:
        return report.skip("compute-sanitizer", "it is not installed")
    for kind in ("memcheck", "racecheck"):
        job = json.dumps({"task": "transfers", "ranks": 2})
        run = subprocess.run([tool, "--tool", kind, "--error-exitcode", "9", sys.executable, SCRIPT, "--threads-of", job],
                             capture_output=True, text=True, timeout=options.limit, input="", check=False)
        good = run.returncode == 0 and '"error"' not in run.stdout
        report.check(f"compute-sanitizer {kind}", [{} if good else {"error": (run.stdout + run.stderr)[-400:]}])


def torch(report, options):
    probe = subprocess.run([sys.executable, "-c", "import torch; assert torch.cuda.is_available()"], capture_output=True, check=False)
    if probe.returncode != 0:
        return report.skip("PyTorch's ProcessGroupNCCL", "torch with CUDA cannot be imported")
    ranks = 2
    environment = {"NCCL_DEBUG": "INFO", **os.environ, "LD_PRELOAD": os.environ["SCCL_LIB"], "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611"}
    workers = [subprocess.Popen([sys.executable, str(HERE / "gpu_torch.py")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**environment, "RANK": str(rank), "WORLD_SIZE": str(ranks)}) for rank in range(ranks)]
    outputs = outputs_of(workers, options.limit)
    for line in [line for line in outputs[0].splitlines() if line.startswith("TORCH ")]:
        _, name, verdict = line.split(" ", 2)
        if verdict.startswith("skip: "):
            report.skip(f"torch {name}", verdict[len("skip: "):])
        else:
            report.check(f"torch {name}", [{} if verdict == "ok" else {"error": verdict}])
    if not all("TORCH done ok" in output for output in outputs):
        Told.keep(outputs, "torch")
        report.check("torch", [{"error": output[-400:]} for output in outputs if "TORCH done ok" not in output])


def nccl_tests(report, options):
    folder = os.environ.get("NCCL_TESTS_DIR")
    if not folder:
        return report.skip("nccl-tests", "NCCL_TESTS_DIR is not set")
    for program in ("all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "broadcast_perf", "sendrecv_perf"):
        path = pathlib.Path(folder) / program
        if not path.exists():
            report.skip(program, f"{path} is not there")
            continue
        run = subprocess.run([str(path), "-g", "1", "-b", "8", "-e", "16M", "-f", "8", "-c", "1"], capture_output=True, text=True, check=False,
                             env={**os.environ, "LD_PRELOAD": os.environ["SCCL_LIB"]}, timeout=options.limit)
        report.check(program, [{} if run.returncode == 0 else {"error": (run.stdout + run.stderr)[-400:]}])
