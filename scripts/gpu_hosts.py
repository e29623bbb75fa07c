"""Several hosts on one device: processes that are told by NCCL_HOSTID that they are on different hosts share no memory, and
their messages take the way between hosts: kernels, host memory, an engine (UCX or a net plugin, which must be installed).
And communicators of more ranks than a device was ever given."""
import ctypes
import os

import gpu_contact

# Ranks of each host, in the order of ranks.
LAYOUTS = {"2 hosts of 1": [0, 1], "2 hosts of 2": [0, 0, 1, 1], "hosts of 3, 5 and 2": [0] * 3 + [1] * 5 + [2] * 2,
           "2 hosts of 2, ranks by turns": [0, 1, 0, 1]}
MANY_RANKS = 40


def run(report, options, run_job):
    title = "hosts that share a device"
    if not has_engine():
        report.skip(title, "there is no engine between hosts: install libucx0, or set NCCL_NET_PLUGIN")
    else:
        gpu_contact.with_service(report, title, lambda environment: of_processes(report, options, run_job, environment))
    title = f"correctness, {MANY_RANKS} ranks as threads"
    if report.facts["multiprocessors"] < MANY_RANKS:
        return report.skip(title, "the device has fewer multiprocessors")
    # No graphs: those of more ranks than there are hardware queues (32 at most) may wait for one another in these.
    report.check(title, run_job("threads", {"task": "correctness", "ranks": MANY_RANKS, "quick": True}, options.limit))


def has_engine():
    try:
        return "NCCL_NET_PLUGIN" in os.environ or ctypes.CDLL("libucp.so.0") is not None
    except OSError:
        return False


def of_processes(report, options, run_job, environment):
    for name, hosts in LAYOUTS.items():
        tasks = ("correctness", "transfers", "graphs", "mismatch", "abort") if len(hosts) < 5 else ("correctness", "transfers")
        for task in tasks:
            job = {"task": task, "ranks": len(hosts), "hosts": hosts, "quick": True}
            report.check(f"{task}, {name}", run_job("processes", job, options.limit, environment))
    sizes = [8, 1 << 16] if options.quick else [8, 1 << 16, 1 << 20, 1 << 24, 1 << 28]
    for name, hosts in list(LAYOUTS.items())[:2]:
        error = gpu_contact.measure(report, options, run_job, len(hosts), sizes, name, environment, "hosts", "processes", hosts)
        report.check(f"time of a call, {name}", [{"error": error}] if error else [{}])
