"""The vendor's own library (NCCL_LIB) as one more algorithm of this one (docs/vendor.md), in processes with MPS: one process
cannot be several of NCCL's ranks on one device. A library that is named by its path and does not serve is an error of the
calls that want it, so that what passes here was served by it."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import gpu_contact
from gpu_device import Driver
from gpu_jobs import outputs_of

TASKS = ("correctness", "transfers", "graphs", "one_sided", "in_windows", "abort")


def run(report, options, run_job):
    path = os.environ.get("NCCL_LIB")
    if path is None:
        return report.skip("the vendor's library", "NCCL_LIB is not set")
    named = {"SCCL_VENDOR": os.path.abspath(path), "NCCL_MULTI_RANK_GPU_ENABLE": "1", "SCCL_DEVICE_PATH": "kernels"}
    gpu_contact.with_service(report, "the vendor's library", lambda service: of_processes(report, options, run_job, {**service, **named}))


def of_processes(report, options, run_job, environment):
    asked = {**environment, "SCCL_ALGO": "vendor"}
    for task in TASKS:
        report.check(f"{task} by the vendor's library, 2 ranks as processes",
                     run_job("processes", {"task": task, "ranks": 2, "quick": True, "called_before": True}, options.limit, asked))
    report.check("measured times with the vendor's library among them, 2 ranks as processes",
                 run_job("processes", {"task": "correctness", "ranks": 2, "quick": True}, options.limit, {**environment, "SCCL_TUNE": "online"}))
    sizes = [8, 1 << 16] if options.quick else [8, 1 << 16, 1 << 20, 1 << 24, 1 << 28]
    for way, settings in {"vendor": asked, "online": {**environment, "SCCL_TUNE": "online"}}.items():
        error = gpu_contact.measure(report, options, run_job, 2, sizes, way, settings, "vendor's library", "processes")
        report.check(f"time of a call, {way}, 2 ranks", [{"error": error}] if error else [{}])
    device_interface(report, options, environment)


def device_interface(report, options, environment):
    """A kernel that is compiled with NCCL's device interface, first with NCCL alone: what that cannot do is not ours to do."""
    title = "a kernel with NCCL's device interface, 2 ranks as processes"
    vendor, ours = pathlib.Path(environment["SCCL_VENDOR"]), pathlib.Path(os.environ["SCCL_LIB"]).resolve()
    header = vendor.parent.parent / "include" / "nccl_device.h"
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if not header.exists() or nvcc is None:
        return report.skip(title, f"{header} is not there" if nvcc else "nvcc is not installed")
    capability = "".join(str(Driver().attribute(number)) for number in (75, 76))
    with tempfile.TemporaryDirectory() as folder:
        program = str(pathlib.Path(folder) / "device_interface")
        source = pathlib.Path(__file__).with_name("gpu_device_interface.cu")
        build = subprocess.run([nvcc, "-std=c++17", f"-arch=sm_{capability}", "-o", program, str(source), f"-I{header.parent}",
                                f"-L{vendor.parent}", "-l:" + vendor.name], capture_output=True, text=True, check=False)
        if build.returncode != 0:
            return report.skip(title, f"nvcc: {(build.stdout + build.stderr)[-400:]}")
        alone = ranks_of(program, options, {**environment, "LD_LIBRARY_PATH": str(vendor.parent)}, folder + "/alone")
        if alone:
            return report.skip(title, f"NCCL alone: {alone}")
        beside = ranks_of(program, options, {**environment, "LD_LIBRARY_PATH": str(vendor.parent), "LD_PRELOAD": str(ours)}, folder + "/beside")
        report.check(title, [{"error": beside}] if beside else [{}])


def ranks_of(program, options, environment, meeting):
    """What went wrong, or nothing."""
    ranks = [subprocess.Popen([program, str(rank), "2", meeting], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "NCCL_DEBUG": "WARN", **environment}) for rank in range(2)]
    said = outputs_of(ranks, options.limit)
    good = all(text.endswith("ok\n") for text in said) and all(process.returncode == 0 for process in ranks)
    return "" if good else " | ".join(" ".join(text.split())[-300:] for text in said)
