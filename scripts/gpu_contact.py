"""First contact with a device, in the order in which trouble is cheapest to understand: what the driver says and which of
its calls wait for a kernel that spins; few ranks before many; a fault at the end. Parts of gpu_check.py."""
import ctypes as C
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from gpu_device import Driver, Failure, OPS

# By CUDA's numbers.
ATTRIBUTES = {"multiprocessors": 16, "capability, major": 75, "capability, minor": 76, "registers of a multiprocessor": 82,
              "shared memory of a multiprocessor": 81, "blocks of a multiprocessor": 106, "virtual memory": 102,
              "memory as file descriptors": 103, "pageable memory": 88, "streams wait for values": 122, "MPS": 133,
              "concurrent kernels": 31, "unified addressing": 41, "copy engines": 40, "compute mode": 20}

SPIN_S = 0.5

# One kernel waits until the host stores into a word that it sees, one writes where no memory is.
PTX = b"""
.version 6.0
.target sm_60
.address_size 64
.visible .entry gpu_check_spin(.param .u64 word) {
  .reg .b64 %a; .reg .b32 %v; .reg .pred %p;
  ld.param.u64 %a, [word];
AGAIN:
  ld.volatile.global.u32 %v, [%a];
  setp.eq.u32 %p, %v, 0;
  @%p bra AGAIN;
  ret;
}
.visible .entry gpu_check_fault(.param .u64 word) {
  .reg .b64 %a; .reg .b32 %v;
  mov.u64 %a, 16;
  mov.u32 %v, 1;
  st.global.u32 [%a], %v;
  ret;
}
\0"""


class Spinner:
    """A kernel that runs until it is told to end."""

    def __init__(self, driver):
        self.driver, lib = driver, driver.lib
        host = C.c_void_p()
        driver.check(lib.cuMemHostAlloc(C.byref(host), C.c_size_t(4096), 3), "cuMemHostAlloc")
        self.word = C.cast(host, C.POINTER(C.c_uint32))
        self.word[0] = 0
        self.address = C.c_uint64()
        driver.check(lib.cuMemHostGetDevicePointer_v2(C.byref(self.address), host, 0), "cuMemHostGetDevicePointer")
        module = C.c_void_p()
        driver.check(lib.cuModuleLoadData(C.byref(module), PTX), "cuModuleLoadData of PTX")
        self.functions = {}
        for name in ("gpu_check_spin", "gpu_check_fault"):
            self.functions[name] = C.c_void_p()
            driver.check(lib.cuModuleGetFunction(C.byref(self.functions[name]), module, name.encode()), name)
        self.stream = driver.stream()

    def launch(self, name):
        arguments = (C.c_void_p * 1)(C.cast(C.byref(self.address), C.c_void_p))
        self.driver.check(self.driver.lib.cuLaunchKernel(self.functions[name], 1, 1, 1, 1, 1, 1, 0, self.stream, arguments, None), name)

    def spin(self):
        self.word[0] = 0
        self.launch("gpu_check_spin")
        time.sleep(0.05)

    def release(self):
        self.word[0] = 1


def beside(driver, spinner):
    """Driver calls by name, and what they need, made before the kernel spins."""
    lib, size = driver.lib, C.c_size_t(1 << 16)
    address, host, event, stream, module = C.c_uint64(), C.c_void_p(), C.c_void_p(), C.c_void_p(), C.c_void_p()
    freed, kept, other = driver.allocate(1 << 16), driver.allocate(1 << 16), driver.stream()
    page, freed_host = (C.c_char * (1 << 17))(), C.c_void_p()
    aligned = C.c_void_p((C.addressof(page) + 4095) // 4096 * 4096)
    driver.check(lib.cuMemHostAlloc(C.byref(freed_host), size, 3), "cuMemHostAlloc")
    old_module, loaded = C.c_void_p(), C.c_void_p()
    driver.check(lib.cuModuleLoadData(C.byref(old_module), PTX), "cuModuleLoadData")
    return {
        "cuMemAlloc": lambda: lib.cuMemAlloc_v2(C.byref(address), size),
        "cuMemFree": lambda: lib.cuMemFree_v2(C.c_uint64(freed)),
        "cuMemHostAlloc": lambda: lib.cuMemHostAlloc(C.byref(host), size, 3),
        "cuMemFreeHost": lambda: lib.cuMemFreeHost(freed_host),
        "cuMemHostRegister": lambda: lib.cuMemHostRegister_v2(aligned, C.c_size_t(4096), 3),
        "cuMemsetD8Async on another stream": lambda: lib.cuMemsetD8Async(C.c_uint64(kept), C.c_ubyte(0), size, other),
        "cuMemcpyHtoDAsync from pageable memory": lambda: lib.cuMemcpyHtoDAsync_v2(C.c_uint64(kept), b"x" * 4096, C.c_size_t(4096), other),
        "cuStreamCreate": lambda: lib.cuStreamCreate(C.byref(stream), 1),
        "cuStreamSynchronize of another stream": lambda: lib.cuStreamSynchronize(other),
        "cuEventCreate": lambda: lib.cuEventCreate(C.byref(event), 2),
        "cuModuleLoadData": lambda: lib.cuModuleLoadData(C.byref(loaded), PTX),
        "cuModuleUnload": lambda: lib.cuModuleUnload(old_module),
    }


def inside_capture(driver, stream):
    """Driver calls by name that a library makes in a call on a stream that is being captured."""
    lib, size = driver.lib, C.c_size_t(1 << 16)
    number, status, address, host, handle = C.c_uint64(), C.c_int(), C.c_uint64(), C.c_void_p(), C.c_void_p()
    other, data, event, fresh = driver.stream(), driver.allocate(1 << 16), driver.event(), driver.event()
    driver.record(event, other)
    driver.synchronize(other)
    return {
        "cuStreamGetId of the stream": lambda: lib.cuStreamGetId(stream, C.byref(number)),
        "cuStreamGetId of another stream": lambda: lib.cuStreamGetId(other, C.byref(number)),
        "cuStreamGetCaptureInfo of the stream": lambda: lib.cuStreamGetCaptureInfo_v2(stream, C.byref(status), C.byref(number), None, None, None),
        "cuStreamIsCapturing of the stream": lambda: lib.cuStreamIsCapturing(stream, C.byref(status)),
        "cuStreamQuery of the stream": lambda: lib.cuStreamQuery(stream),
        "cuStreamQuery of another stream": lambda: lib.cuStreamQuery(other),
        "cuEventQuery of an event outside": lambda: lib.cuEventQuery(event),
        "cuEventCreate": lambda: lib.cuEventCreate(C.byref(handle), 2),
        "cuEventRecord in the stream": lambda: lib.cuEventRecord(fresh, stream),
        "cuPointerGetAttributes": lambda: lib.cuPointerGetAttributes(1, (C.c_int * 1)(2), (C.c_void_p * 1)(C.addressof(status)), C.c_uint64(data)),
        "cuMemGetAddressRange": lambda: lib.cuMemGetAddressRange_v2(C.byref(address), C.byref(size), C.c_uint64(data)),
        "cuMemHostAlloc": lambda: lib.cuMemHostAlloc(C.byref(host), C.c_size_t(4096), 3),
        "cuMemAlloc": lambda: lib.cuMemAlloc_v2(C.byref(address), C.c_size_t(4096)),
        "cuMemcpyHtoDAsync in the stream": lambda: lib.cuMemcpyHtoDAsync_v2(C.c_uint64(data), host, C.c_size_t(64), stream),
        "cuMemcpyHtoDAsync in another stream": lambda: lib.cuMemcpyHtoDAsync_v2(C.c_uint64(data), host, C.c_size_t(64), other),
        "cuStreamWriteValue32 in the stream": lambda: lib.cuStreamWriteValue32_v2(stream, C.c_uint64(data), C.c_uint32(1), 0),
        "cuModuleLoadData": lambda: lib.cuModuleLoadData(C.byref(handle), PTX),
    }


def capture_worker():
    """What each call does to a capture of the calling thread, alone and with cuThreadExchangeStreamCaptureMode(relaxed)."""
    driver = Driver()
    stream = driver.stream()
    lib = driver.lib
    for name, call in inside_capture(driver, stream).items():
        found = {"call": name}
        for way, mode in (("alone", 1), ("relaxed", 2)):
            driver.check(lib.cuStreamBeginCapture_v2(stream, 1), "cuStreamBeginCapture")
            exchanged, status, graph = C.c_int(mode), C.c_int(), C.c_void_p()
            lib.cuThreadExchangeStreamCaptureMode(C.byref(exchanged))
            code = call()
            lib.cuThreadExchangeStreamCaptureMode(C.byref(exchanged))
            lib.cuStreamIsCapturing(stream, C.byref(status))
            ended = lib.cuStreamEndCapture(stream, C.byref(graph))
            if graph.value:
                lib.cuGraphDestroy(graph)
            found[way] = f"{'allowed' if ended == 0 else f'ends the capture ({ended})'}{f', returns {code}' if code else ''}"
        print(json.dumps(found), flush=True)
    os._exit(0)


def probe_worker():
    """Each call while a kernel spins, which is ended after a while: a call that waits for it takes as long."""
    driver = Driver()
    spinner = Spinner(driver)
    for name, call in beside(driver, spinner).items():
        spinner.spin()
        end = threading.Timer(SPIN_S, spinner.release)
        begin = time.monotonic()
        end.start()
        code = call()
        seconds = time.monotonic() - begin
        end.cancel()
        spinner.release()
        driver.synchronize(spinner.stream)
        print(json.dumps({"call": name, "code": code, "ms": seconds * 1e3}), flush=True)
    os._exit(0)


def probe(report, options, run_job):
    driver = Driver()
    for name, number in ATTRIBUTES.items():
        try:
            report.facts[name] = driver.attribute(number)
        except Failure as error:
            report.facts[name] = str(error)
    report.facts["CUDA_DEVICE_MAX_CONNECTIONS"] = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "not set (8)")
    output, ended = told_by("--probe-captures", options)
    for line in output.splitlines():
        report.captures.append(json.loads(line))
        print("while a stream is captured: {call} {alone}; relaxed: {relaxed}".format(**report.captures[-1]), flush=True)
    report.check("probe of captures", [{"error": f"after {len(report.captures)} calls: {ended}"} if ended else {}])
    output, ended = told_by("--probe-calls", options)
    for line in output.splitlines():
        found = json.loads(line)
        waits = found["ms"] > SPIN_S * 900
        verdict = f"{'waits for the kernel' if waits else 'returns'} ({found['code']}), {found['ms']:.2f} ms"
        report.waits.append({"call": found["call"], "verdict": verdict})
        print(f"while a kernel spins: {found['call']} {verdict}", flush=True)
    if ended:
        # The call after the last one of the list is the one that did it.
        return report.check("probe of the driver", [{"error": f"after {len(report.waits)} calls: {ended}"}])
    report.check("probe of the driver", [{"calls": len(report.waits)}])


def told_by(argument, options):
    """What a process of its own prints, and how it ended if it did not end well."""
    script = str(pathlib.Path(__file__).with_name("gpu_check.py"))
    try:
        run = subprocess.run([sys.executable, script, argument], capture_output=True, text=True, timeout=options.short, check=False)
    except subprocess.TimeoutExpired as expired:
        return (expired.stdout or b"").decode(), f"did not end within {options.short} s"
    return run.stdout, f"ended with status {run.returncode}: {' '.join(run.stderr.split())[-200:]}" if run.returncode else None


def two_threads(report, options, run_job):
    for task in ("correctness", "transfers", "graphs"):
        report.check(f"first contact: {task}, 2 ranks as threads",
                     run_job("threads", {"task": task, "ranks": 2, "quick": True}, options.short))


def two_processes(report, options, run_job):
    job = {"task": "correctness", "ranks": 2, "quick": True}
    report.check("2 processes without MPS", run_job("processes", job, options.short, {"CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"}))
    with_service(report, "2 processes with MPS", lambda environment: report.check(
        "2 processes with MPS", run_job("processes", job, options.short, environment)))


def with_service(report, what, action):
    """action(environment) beside a daemon of its own: another user's stays as it is."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        return report.skip(what, "nvidia-cuda-mps-control is not installed")
    with tempfile.TemporaryDirectory() as folder:
        environment = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        started = subprocess.run([control, "-d"], env={**os.environ, **environment}, capture_output=True, text=True, timeout=30, check=False)
        if started.returncode != 0:
            return report.skip(what, f"the daemon does not start: {(started.stdout + started.stderr).strip()[-200:]}")
        try:
            action(environment)
        finally:
            subprocess.run([control], input="quit\n", env={**os.environ, **environment}, capture_output=True, text=True, timeout=30, check=False)


def connections(report, options, run_job):
    """Streams of a process share so many channels to the device; a kernel that waits holds up what is behind it in its own."""
    ranks = min(8, max(options.ranks))
    for channels in ("8", "32"):
        for task in ("correctness", "graphs"):
            report.check(f"{task}, {ranks} ranks as threads, CUDA_DEVICE_MAX_CONNECTIONS={channels}",
                         run_job("threads", {"task": task, "ranks": ranks, "quick": True}, options.limit,
                                 {"CUDA_DEVICE_MAX_CONNECTIONS": channels}))


# --- figures -----------------------------------------------------------------------------------------------------------

def timed(rank):
    """A row for each size: us of a call by events on the stream, and of the host."""
    driver, rows = rank.driver, []
    largest = max(rank.job["sizes"])
    data = rank.take(largest)
    begin_event, end_event = driver.event(), driver.event()
    rank.fill((data, 0, largest))
    for size in rank.job["sizes"]:
        count = max(1, size // 4)
        rounds = 5 if rank.job.get("quick") else 200 if size <= 1 << 16 else 20
        def call():
            rank.library.collective("AllReduce", data, data, count, 7, OPS["sum"], 0, rank.comm, rank.stream)
        for _ in range(3):
            call()
        driver.synchronize(rank.stream)
        driver.record(begin_event, rank.stream)
        host = time.perf_counter()
        for _ in range(rounds):
            call()
        host = (time.perf_counter() - host) / rounds * 1e6
        driver.record(end_event, rank.stream)
        driver.synchronize(rank.stream)
        rows.append({"bytes": size, "us": driver.elapsed_ms(begin_event, end_event) / rounds * 1e3, "host_us": host})
    return {"rows": rows}


def copy_bandwidth(driver, size):
    """Bytes read and written a second by the device's own copy."""
    stream, a, b = driver.stream(), driver.allocate(size), driver.allocate(size)
    driver.copy(b, a, size, stream)
    driver.synchronize(stream)
    begin = time.perf_counter()
    for _ in range(10):
        driver.copy(b, a, size, stream)
    driver.synchronize(stream)
    seconds = (time.perf_counter() - begin) / 10
    driver.free(a)
    driver.free(b)
    return 2 * size / seconds


WAYS = {"in place": {}, "through slots": {"NCCL_P2P_DIRECT_DISABLE": "1"}}


def measure(report, options, run_job, ranks, sizes, way, environment, title, mode="threads", hosts=None):
    job = {"task": "timed", "ranks": ranks, "sizes": sizes, "quick": options.quick, "hosts": hosts}
    results = run_job(mode, job, options.limit, environment)
    errors = [result["error"] for result in results if "error" in result]
    if errors:
        return errors[0]
    for i, size in enumerate(sizes):
        report.figures.append({"what": title, "way": way, "ranks": ranks, "bytes": size, "us": max(r["rows"][i]["us"] for r in results),
                               "host_us": max(r["rows"][i]["host_us"] for r in results)})
    return None


def latency(report, options, run_job):
    sizes = [8, 1024] if options.quick else [8, 64, 1024, 8192, 65536]
    for ranks in options.ranks:
        error = measure(report, options, run_job, ranks, sizes, "in place", {}, "latency")
        report.check(f"latency by events, {ranks} ranks", [{"error": error}] if error else [{}])
    of_processes(report, options, run_job, sizes, "latency")


def of_processes(report, options, run_job, sizes, title):
    """With MPS, beside NCCL: one process cannot be several of its ranks on one device (2.32 hangs)."""
    nccl = os.environ.get("NCCL_LIB")
    ways = {"processes, MPS": {}}
    if nccl is None:
        report.skip(f"{title} of NCCL", "NCCL_LIB is not set")
    else:
        # Several ranks of one device: 2.30 and newer, when asked.
        ways["NCCL, processes, MPS"] = {"SCCL_LIB": nccl, "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    def run(environment):
        for ranks in options.ranks:
            for way, settings in ways.items():
                error = measure(report, options, run_job, ranks, sizes, way, {**environment, **settings}, title, "processes")
                if error and "SCCL_LIB" in settings:
                    report.skip(f"{title}, {way}, {ranks} ranks", error)
                else:
                    report.check(f"{title}, {way}, {ranks} ranks", [{"error": error}] if error else [{}])
    with_service(report, f"{title} of processes with MPS", run)


def bandwidth(report, options, run_job):
    sizes = [1 << 16] if options.quick else [1 << 20, 1 << 24, 1 << 28]
    report.facts["copy_gbytes_per_s"] = copy_bandwidth(Driver(), sizes[-1]) / 1e9
    for ranks in options.ranks:
        for way, environment in WAYS.items():
            error = measure(report, options, run_job, ranks, sizes, way, environment, "bandwidth")
            report.check(f"bandwidth {way}, {ranks} ranks", [{"error": error}] if error else [{}])
    of_processes(report, options, run_job, sizes, "bandwidth")


def fault(rank):
    """A kernel that faults; the communicator must go all the same, with an error."""
    spinner = Spinner(rank.driver)
    data = rank.take(4096)
    rank.barrier()  # the spinner allocates, which may wait for a kernel of the peer that waits for this rank
    rank.library.collective("AllReduce", data, data, 16, 7, 0, 0, rank.comm, rank.stream)
    rank.driver.synchronize(rank.stream)
    rank.barrier()
    if rank.rank == 0:
        spinner.launch("gpu_check_fault")
    code = rank.driver.lib.cuStreamSynchronize(spinner.stream) if rank.rank == 0 else 0
    if rank.rank == 0 and code == 0:
        raise Failure("a store to address 16 was no fault")
    rank.barrier()
    begin = time.monotonic()
    rank.library.lib.ncclCommDestroy(rank.comm)
    rank.close = lambda: None
    return {"seconds": time.monotonic() - begin, "code": code}


def device_fault(report, options, run_job):
    report.check("a device fault, then ncclCommDestroy, 2 ranks as threads",
                 run_job("threads", {"task": "fault", "ranks": 2, "quick": True}, options.short))


TASKS = {"timed": timed, "fault": fault}
PARTS = {"probe": probe, "two-threads": two_threads, "two-processes": two_processes, "connections": connections, "latency": latency,
         "bandwidth": bandwidth, "fault": device_fault}


def markdown(report):
    lines = []
    if report.waits:
        lines += ["", "## Driver calls while a kernel spins", "", "| call | |", "| --- | --- |"]
        lines += [f"| {row['call']} | {row['verdict'].replace('|', '/')} |" for row in report.waits]
    if report.captures:
        lines += ["", "## Driver calls while a stream is captured", "", "By the thread whose stream is captured (mode: of the thread), and with",
                  "cuThreadExchangeStreamCaptureMode(relaxed) around the call.", "", "| call | alone | relaxed |", "| --- | --- | --- |"]
        lines += ["| {call} | {alone} | {relaxed} |".format(**row) for row in report.captures]
    if report.figures:
        copy = report.facts.get("copy_gbytes_per_s")
        lines += ["", "## AllReduce by events", "", "us of a call on the stream of the slowest rank. n ranks of S bytes on one device read and write",
                  "2 n S bytes at least; the share is of the device's own copy.", "",
                  "| | way | ranks | bytes | us | host us | of copy bandwidth |", "| --- | --- | --- | --- | --- | --- | --- |"]
        for row in report.figures:
            share = f"{200 * row['ranks'] * row['bytes'] / (row['us'] * 1e3 * copy):.1f}%" if copy and row["us"] > 0 else "-"
            lines.append(f"| {row['what']} | {row['way']} | {row['ranks']} | {row['bytes']} | {row['us']:.2f} | {row['host_us']:.2f} | {share} |")
    return lines
