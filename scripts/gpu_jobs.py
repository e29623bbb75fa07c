"""Starts the ranks of a job, as threads of a process or as processes. What gpu_check.py needs to run jobs."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from gpu_device import Library

SCRIPT = str(pathlib.Path(__file__).with_name("gpu_check.py"))


def outputs_of(workers, seconds):
    """What each process printed, as text; one that does not end in time is ended, and that is told before."""
    outputs = []
    for worker in workers:
        try:
            outputs.append(worker.communicate(timeout=seconds)[0])
        except subprocess.TimeoutExpired:
            worker.kill()
            outputs.append(f"did not end within {seconds} s: " + worker.communicate()[0])
    return outputs


def run_threads(job, seconds, environment=None):
    """In a process of its own, so that a hang can be ended."""
    return spawn([["--threads-of", json.dumps(job)]], "", seconds, environment)


class Told:
    """What the ranks of a job told (NCCL_DEBUG): kept where the job fails, so that one run on a device is enough."""
    folder, kept, ends_at = None, 0, None

    @classmethod
    def keep(cls, texts, title):
        cls.kept += 1
        if cls.folder is None or cls.kept > 100:
            return
        cls.folder.mkdir(parents=True, exist_ok=True)
        with open(cls.folder / f"{cls.kept:02}.txt", "w", encoding="utf-8") as kept:
            kept.write(title + "\n")
            for rank, text in enumerate(texts):
                kept.write(f"--- worker {rank}, {len(text)} characters, the last 20000\n{text[-20000:]}\n")


def read_all(file):
    file.seek(0)
    return file.read().decode(errors="replace")


def spawn(argument_lists, unique_id, seconds, environment=None, hosts=None):
    if Told.ends_at is not None:
        seconds = min(seconds, max(1, Told.ends_at - time.monotonic()))
    # A hang is told by the library, with its reason, before the job is ended.
    settings = {"NCCL_DEBUG": "INFO", "SCCL_TIMEOUT_MS": str(int(seconds * 600)), **os.environ, **(environment or {})}
    told = [tempfile.TemporaryFile() for _ in argument_lists]
    stacks = ["--stacks-after", str(int(seconds * 0.5) + 1)]
    workers = [subprocess.Popen([sys.executable, SCRIPT, *arguments, *stacks], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=file, text=True, env={**settings, **of_host(hosts, i)})
               for i, (arguments, file) in enumerate(zip(argument_lists, told))]
    results, printed, deadline = [], [], time.monotonic() + seconds
    for worker in workers:
        worker.stdin.write(unique_id)
        worker.stdin.close()
        worker.stdin = None
    for worker in workers:
        try:
            output, _ = worker.communicate(timeout=max(0.1, deadline - time.monotonic()))
            last = output.strip().splitlines()[-1] if output.strip() else ""
            found = json.loads(last) if last.startswith(("{", "[")) else {"error": f"ended with status {worker.returncode}"}
        except subprocess.TimeoutExpired:
            found = {"error": f"did not end within {seconds} s"}
            worker.kill()
            output, _ = worker.communicate()
        printed.append(output)
        results.extend(found if isinstance(found, list) else [found])
    if any("error" in result for result in results):
        Told.keep([text + read_all(file) for text, file in zip(printed, told)], f"{argument_lists[0]} {environment or {}}\n{json.dumps(results)}")
    for file in told:
        file.close()
    return results


def of_host(hosts, rank):
    return {"NCCL_HOSTID": f"host{hosts[rank]}"} if hosts else {}


def run_job(mode, job, seconds, environment=None):
    environment = {**({"NCCL_DEBUG": "WARN"} if job["task"] in ("bench", "timed") else {}), **(environment or {})}
    if mode == "threads":
        return run_threads(job, seconds, environment)
    return spawn([["--rank-of", json.dumps(job), "--rank", str(rank)] for rank in range(job["ranks"])],
                 Library((environment or {}).get("SCCL_LIB")).create_id().hex(), seconds, environment, job.get("hosts"))
