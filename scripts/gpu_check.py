"""The tests and measurements that need a GPU. Started by gpu-check.sh; `--help` names the parts."""
import argparse
import ctypes as C
import faulthandler
import json
import os
import pathlib
import platform
import re
import sys
import threading
import time
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import gpu_contact
import gpu_hosts
import gpu_paths
import gpu_programs
import gpu_protocols
import gpu_vendor
from gpu_device import EIGHT_BITS, OPS, SMALL, TYPES, Driver, Failure, Library, SignalWait, encode
from gpu_jobs import Told, run_job

KINDS = ["AllReduce", "Reduce", "ReduceScatter", "AllGather", "Broadcast", "AlltoAll", "Gather", "Scatter"]
REDUCES = {"AllReduce", "Reduce", "ReduceScatter"}
MULTIPROCESSORS = 16


# --- what a call must give: element i of rank r's input is (r + i) % 2 ------------------------------------------------

def pattern(kind, rank, begin, count):
    pair = encode(kind, (rank + begin) % 2) + encode(kind, (rank + begin + 1) % 2)
    return (pair * (count // 2 + 1))[:count * TYPES[kind][1]]


def reduced(kind, op, ranks, begin, count):
    elements = []
    for parity in (0, 1):
        values = [(rank + begin + parity) % 2 for rank in range(ranks)]
        value = {"sum": sum(values), "prod": min(values), "max": max(values), "min": min(values),
                 "avg": sum(values) / ranks if kind.startswith("float") else sum(values) // ranks}[op]
        elements.append(encode(kind, value))
    return (b"".join(elements) * (count // 2 + 1))[:count * TYPES[kind][1]]


def expected(call, kind, op, ranks, rank, root, count):
    mine = rank * count
    if call in ("AllReduce", "Reduce"):
        return reduced(kind, op, ranks, 0, count) if call == "AllReduce" or rank == root else b""
    if call == "ReduceScatter":
        return reduced(kind, op, ranks, mine, count)
    if call == "Broadcast":
        return pattern(kind, root, 0, count)
    if call == "Scatter":
        return pattern(kind, root, mine, count)
    if call in ("AllGather", "Gather"):
        return b"".join(pattern(kind, peer, 0, count) for peer in range(ranks)) if call == "AllGather" or rank == root else b""
    return b"".join(pattern(kind, peer, mine, count) for peer in range(ranks))


def sent_elements(call, ranks, rank, root, count):
    return ranks * count if call in ("ReduceScatter", "AlltoAll") or (call == "Scatter" and rank == root) else count


# --- what a rank does --------------------------------------------------------------------------------------------------

def arena_bytes(job):
    """The most that a task takes at a time."""
    task, ranks, spare = job["task"], job["ranks"], 1 << 16
    if task == "bench":
        largest = max(job["sizes"])
        return largest * (1 + (ranks if job["call"] in ("ReduceScatter", "AllGather") else 1)) + spare
    if task == "timed":
        return max(job["sizes"]) + spare
    if task == "transfers":
        return 2 * ranks * (1 << 20) + spare * (1 + ranks)
    if task == "one_sided":
        return 3 * 4 * (1 + 100000 + (1 << 22)) + spare
    if task == "correctness":
        return 2 * ranks * (5000 * 8 if job.get("quick") else ((1 << 24) + 3) * 4) + spare
    return 1 << 21


class Rank:
    def __init__(self, job, rank, unique_id):
        self.job, self.rank, self.ranks = job, rank, job["ranks"]
        self.driver, self.library = Driver(rank % job.get("devices", 1)), Library()
        self.stream = self.driver.stream()
        # Buffers are taken from here and never given back: while a peer's kernel waits for this rank, allocating and freeing
        # may wait for that kernel.
        self.arena_bytes = arena_bytes(job)
        self.arena, self.used = self.driver.allocate(self.arena_bytes), 0
        self.meeting = job.get("meeting")
        self.comm = self.library.join(unique_id, self.ranks, rank)
        self.places = None  # of check_case's buffers, if not of its own

    def take(self, size):
        at, self.used = self.arena + self.used, self.used + (max(size, 16) + 511) // 512 * 512
        if self.used > self.arena_bytes:
            raise Failure(f"{self.job['task']} needs more than {self.arena_bytes} bytes: arena_bytes() is wrong")
        return at

    def reset(self):
        """What was taken may be taken again; the stream is idle."""
        self.used = 0

    def barrier(self):
        if self.meeting is not None:
            self.meeting.wait()

    def fill(self, *areas):
        """Every (address, byte, size), before any rank goes on: a memset may wait for a peer's kernel that waits for this rank."""
        for address, byte, size in (area for area in areas if area[2] > 0):
            self.driver.fill(address, byte, size, self.stream)
        self.driver.synchronize(self.stream)
        self.barrier()

    def run(self):
        task = self.job["task"]
        return gpu_contact.TASKS[task](self) if task in gpu_contact.TASKS else getattr(self, task)()

    def close(self):
        self.library.call("ncclCommDestroy", self.comm)

    def check_case(self, call, kind, op, count, offset):
        driver, size = self.driver, TYPES[kind][1]
        root = count % self.ranks
        send_data = pattern(kind, self.rank, 0, sent_elements(call, self.ranks, self.rank, root, count))
        wanted = expected(call, kind, op, self.ranks, self.rank, root, count)
        if self.places is None:
            self.reset()
        send, recv = self.places or (self.take(len(send_data) + offset * size), self.take(len(wanted) + offset * size))
        driver.write(send + offset * size, send_data, self.stream)
        self.library.collective(call, send + offset * size, recv + offset * size, count, TYPES[kind][0], OPS[op], root,
                                self.comm, self.stream)
        if driver.read(recv + offset * size, len(wanted), self.stream) != wanted:
            raise Failure(f"{call} {kind} {op} count {count} offset {offset}: wrong result")

    def correctness(self):
        cases = 0
        for call in KINDS:
            for kind in TYPES:
                if self.ranks > 8 and kind in EIGHT_BITS:  # sums that do not hold every number
                    continue
                ops = [op for op in OPS if op != "avg" or kind not in SMALL] if call in REDUCES else ["sum"]
                for op in ops:
                    for count, offset in ((1, 0), (33, 1), (5000, 0)):
                        if (self.job.get("quick") and count != 33) or (call != "AllReduce" and op not in ("sum", "max")):
                            continue
                        self.check_case(call, kind, op, count, offset)
                        cases += 1
        for count in [] if self.job.get("quick") else [1 << 20, (1 << 24) + 3]:
            for call in KINDS:
                self.check_case(call, "float32", "sum", count, 0)
                cases += 1
        return {"cases": cases}

    def churn(self):
        """Every call has another byte everywhere, so that a part of an earlier message shows wherever it is."""
        driver, sizes = self.driver, [1, 119, 120, 1000, 7664, 7665, 30000] + ([] if self.job.get("quick") else [200003, 1 << 20])
        data, rounds = self.take(max(sizes)), 5 if self.job.get("quick") else 100
        for turn in range(rounds * len(sizes)):
            count, value = sizes[turn % len(sizes)], turn % 100
            self.fill((data, value + self.rank, count))
            self.library.collective("AllReduce", data, data, count, 1, OPS["sum"], 0, self.comm, self.stream)
            wanted = (self.ranks * value + self.ranks * (self.ranks - 1) // 2) % 256
            if driver.read(data, count, self.stream) != bytes([wanted]) * count:
                raise Failure(f"AllReduce of {count} bytes, call {turn}: wrong data")
        return {"cases": rounds * len(sizes)}

    def transfers(self):
        driver = self.driver
        for count in (0, 1, 1000, 1 << 20):
            self.reset()
            buffers = [(self.take(count), self.take(count)) for _ in range(self.ranks)]
            self.fill(*((send, 10 * self.rank + peer, count) for peer, (send, _) in enumerate(buffers)))
            self.library.call("ncclGroupStart")
            for peer, (send, recv) in enumerate(buffers):
                self.library.call("ncclSend", C.c_void_p(send), C.c_size_t(count), 1, peer, self.comm, self.stream)
                self.library.call("ncclRecv", C.c_void_p(recv), C.c_size_t(count), 1, peer, self.comm, self.stream)
            self.library.call("ncclGroupEnd")
            for peer, (send, recv) in enumerate(buffers):
                if driver.read(recv, count, self.stream) != bytes([10 * peer + self.rank]) * count:
                    raise Failure(f"transfer of {count} bytes from rank {peer}: wrong data")
        return {"cases": 4}

    def graphs(self):
        driver, count = self.driver, 5000
        data = self.places[0] if self.places else self.take(count * 4)
        driver.write(data, encode("float32", 1) * count, self.stream)
        def calls():
            for _ in range(2):
                self.library.collective("AllReduce", data, data, count, 7, 0, 0, self.comm, self.stream)
        graph = driver.capture(self.stream, calls)
        self.barrier()  # instantiating may allocate
        for _ in range(2):
            driver.replay(graph, self.stream)
        self.library.collective("AllReduce", data, data, count, 7, 0, 0, self.comm, self.stream)
        found = driver.read(data, count * 4, self.stream)
        if self.library.async_error(self.comm) != 0:
            raise Failure(f"two replays and a call failed: {(self.library.lib.ncclGetLastError(None) or b'').decode()}")
        if found != encode("float32", self.ranks ** 5) * count:
            raise Failure("two replays of two AllReduce and one more gave a wrong sum")
        return {"cases": 1}

    def one_sided(self):
        """Everyone puts into the next rank's window; without peer access there are only signals."""
        driver, call, ranks = self.driver, self.library.call, self.ranks
        to, source = (self.rank + 1) % ranks, (self.rank - 1) % ranks
        def await_signal(peer, signal):
            call("ncclWaitSignal", 1, C.byref(SignalWait(1, peer, signal, 0)), self.comm, self.stream)
        windows = 0
        for count in (1, 100000, 1 << 22):
            for of_library in (True, False):
                inbox, window = C.c_void_p(), C.c_void_p()
                if of_library:
                    call("ncclMemAlloc", C.byref(inbox), C.c_size_t(4 * count))
                else:
                    inbox.value = self.take(4 * count)
                data = self.take(4 * count)
                driver.write(data, pattern("float32", self.rank, 0, count), self.stream)
                call("ncclCommWindowRegister", self.comm, inbox, C.c_size_t(4 * count), C.byref(window), 0)
                windows += 1 if window.value else 0
                if window.value:
                    call("ncclPutSignal", C.c_void_p(data), C.c_size_t(count), 7, to, window, C.c_size_t(0), 3, 0, 0, self.comm, self.stream)
                else:
                    call("ncclSignal", to, 3, 0, 0, self.comm, self.stream)
                await_signal(source, 3)
                if window.value and driver.read(inbox.value, 4 * count, self.stream) != pattern("float32", source, 0, count):
                    raise Failure(f"a put of {count} elements from rank {source}: wrong data")
                call("ncclSignal", source, 0, 0, 0, self.comm, self.stream)  # was read
                await_signal(to, 0)
                driver.synchronize(self.stream)
                if window.value:
                    call("ncclCommWindowDeregister", self.comm, window)
                if of_library:
                    call("ncclMemFree", inbox)
        if windows == 0 and self.job.get("windows", True):
            raise Failure("there was no window")
        return {"windows": windows}

    def in_windows(self):
        """Collectives between symmetric windows, which kernels use in place, and a replayed graph there."""
        call, size, buffers, windows = self.library.call, 1 << 22, [C.c_void_p(), C.c_void_p()], [C.c_void_p(), C.c_void_p()]
        for buffer, window in zip(buffers, windows):
            call("ncclMemAlloc", C.byref(buffer), C.c_size_t(size))
            call("ncclCommWindowRegister", self.comm, buffer, C.c_size_t(size), C.byref(window), 1)
        if not windows[1].value and self.job.get("windows", True):
            raise Failure("there was no window")
        self.places = [buffer.value for buffer in buffers]
        for kind in ("AllReduce", "AllGather", "ReduceScatter", "AlltoAll"):
            for count in (33, 5000, size // 4 // self.ranks - 3):
                self.check_case(kind, "float32", "sum", count, 1)
        self.graphs()
        self.driver.synchronize(self.stream)
        for buffer, window in zip(buffers, windows):
            call("ncclCommWindowDeregister", self.comm, window)
            call("ncclMemFree", buffer)
        return {"cases": 13}

    def mismatch(self):
        data = self.take(4096)
        self.library.collective("AllReduce", data, data, 100 + self.rank, 7, 0, 0, self.comm, self.stream)
        for _ in range(1000):
            if self.library.async_error(self.comm) != 0:
                break
            time.sleep(0.01)
        text = (self.library.lib.ncclGetLastError(None) or b"").decode()
        self.driver.synchronize(self.stream)
        if len(set(re.findall(r"count=10\d", text))) != 2:  # of two ranks
            raise Failure(f"a mismatch was told as: {text}")
        self.close = lambda: self.library.lib.ncclCommAbort(self.comm)
        return {"cases": 1}

    def abort(self):
        data = self.take(4096)
        for called in (self.job.get("called_before", False), self.rank == 0):
            if called:
                self.library.collective("AllReduce", data, data, 100, 7, 0, 0, self.comm, self.stream)
        time.sleep(0.2)
        begin = time.monotonic()
        self.library.call("ncclCommAbort", self.comm)
        self.driver.synchronize(self.stream)
        self.close = lambda: None
        return {"seconds": time.monotonic() - begin}

    def bench(self):
        driver, rows = self.driver, []
        largest = max(self.job["sizes"])
        wide = self.ranks if self.job["call"] in ("ReduceScatter",) else 1
        deep = self.ranks if self.job["call"] == "AllGather" else 1
        send, recv = self.take(largest * wide), self.take(largest * deep)
        self.fill((send, 0, largest * wide))
        for size in self.job["sizes"]:
            call = lambda: self.bench_call(send, recv, size)
            # Kernels of several processes take turns in time slices, a hop in each.
            rounds = 10 if self.job["mode"] == "processes" else 200 if size <= 1 << 16 else 20 if size <= 1 << 26 else 5
            for _ in range(2):
                call()
            driver.synchronize(self.stream)
            begin = time.perf_counter()
            for _ in range(rounds):
                call()
            host = (time.perf_counter() - begin) / rounds
            driver.synchronize(self.stream)
            rows.append({"bytes": size, "us": (time.perf_counter() - begin) / rounds * 1e6, "host_us": host * 1e6})
        return {"rows": rows}

    def bench_call(self, send, recv, size):
        kind = self.job["call"]
        if kind != "SendRecv":
            return self.library.collective(kind, send, recv, max(1, size // 4), 7, 0, 0, self.comm, self.stream)
        self.library.call("ncclGroupStart")
        self.library.call("ncclSend", C.c_void_p(send), C.c_size_t(size), 1, (self.rank + 1) % self.ranks, self.comm, self.stream)
        self.library.call("ncclRecv", C.c_void_p(recv), C.c_size_t(size), 1, (self.rank - 1) % self.ranks, self.comm, self.stream)
        self.library.call("ncclGroupEnd")


def rank_result(job, rank, unique_id):
    try:
        worker = Rank(job, rank, unique_id)
        result = worker.run()
        worker.close()
        return result
    except Exception as error:  # told to whoever started the job
        return {"error": f"rank {rank}: {error}"}


# --- a worker --------------------------------------------------------------------------------------------------------

def worker_main(options):
    if options.stacks_after:
        faulthandler.dump_traceback_later(options.stacks_after)
    if options.threads_of:
        job = json.loads(options.threads_of)
        job["meeting"] = threading.Barrier(job["ranks"], timeout=30)
        unique_id = Library().create_id()
        results = [None] * job["ranks"]
        def body(rank):
            results[rank] = rank_result(job, rank, unique_id)
            if "error" in results[rank]:
                job["meeting"].abort()  # the others do not wait for one that has failed
        threads = [threading.Thread(target=body, args=(rank,)) for rank in range(job["ranks"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps(results), flush=True)
    else:
        print(json.dumps(rank_result(json.loads(options.rank_of), options.rank, bytes.fromhex(sys.stdin.read().strip()))), flush=True)
    os._exit(0)


# --- the parts ---------------------------------------------------------------------------------------------------------

class Report:
    def __init__(self, driver):
        self.checks, self.benches, self.paths, self.protocols, self.skipped, self.waits, self.captures, self.figures = ([] for _ in range(8))
        self.facts = {"device": driver.name(), "driver": driver.version(), "multiprocessors": driver.attribute(MULTIPROCESSORS),
                      "host": platform.processor() or platform.machine(), "python": platform.python_version()}

    def check(self, name, results):
        errors = [result["error"] for result in results if "error" in result]
        self.checks.append({"name": name, "passed": not errors, "detail": "; ".join(errors[:2]) or json.dumps(results[0])})
        print(("ok    " if not errors else "FAIL  ") + name + ("" if not errors else ": " + errors[0]), flush=True)

    def skip(self, name, why):
        self.skipped.append({"name": name, "why": why})
        print(f"skip  {name}: {why}", flush=True)


def correctness(report, options):
    for mode in ("threads", "processes"):
        for ranks in options.ranks:
            job = {"task": "correctness", "ranks": ranks, "quick": options.quick or (mode == "processes" and ranks > 2)}
            report.check(f"correctness, {ranks} ranks as {mode}", run_job(mode, job, options.limit))
        for task in ("transfers", "graphs", "one_sided"):
            report.check(f"{task}, 2 ranks as {mode}", run_job(mode, {"task": task, "ranks": 2}, options.limit))
    # Streams order the calls of processes that share a device, so that kernels are asked for.
    report.check("collectives in windows, 2 ranks as processes",
                 run_job("processes", {"task": "in_windows", "ranks": 2}, options.limit, {"SCCL_DEVICE_PATH": "kernels"}))


def staged(report, options):
    """Through host memory, as between devices without peer access."""
    for mode in ("threads", "processes"):
        for task in ("correctness", "transfers", "graphs", "one_sided"):
            job = {"task": task, "ranks": 2, "quick": options.quick or mode == "processes", "windows": False}
            report.check(f"{task} through host memory, 2 ranks as {mode}",
                         run_job(mode, job, options.limit, {"NCCL_P2P_DISABLE": "1"}))


def devices(report, options):
    """A rank on each device, by whatever ways there are between them."""
    count = Driver().devices()
    if count < 2:
        return report.skip("devices", "there is one device only")
    for mode in ("threads", "processes"):
        for task in ("correctness", "transfers", "graphs", "one_sided", "in_windows"):
            job = {"task": task, "ranks": count, "devices": count, "quick": options.quick, "windows": False}
            report.check(f"{task}, {count} devices as {mode}", run_job(mode, job, options.limit))


def failures(report, options):
    for mode in ("threads", "processes"):
        for task in ("mismatch", "abort"):
            report.check(f"{task}, 2 ranks as {mode}", run_job(mode, {"task": task, "ranks": 2}, options.limit))


# Bytes that must be read and written on one device: all contributions once, all results once.
MOVED = {"AllReduce": lambda n: 2 * n, "AllGather": lambda n: 2 * n * n, "ReduceScatter": lambda n: n * n + n,
         "Broadcast": lambda n: 2 * n, "SendRecv": lambda n: 2 * n}


def bench(report, options):
    driver = Driver()
    largest = 1 << (20 if options.quick else 32)
    report.facts["copy_gbytes_per_s"] = gpu_contact.copy_bandwidth(driver, min(largest, 1 << 30)) / 1e9
    print(f"copy bandwidth {report.facts['copy_gbytes_per_s']:.0f} GB/s, read and written", flush=True)
    for mode in ("threads", "processes"):
        for ranks in options.ranks:
            for call, moved in MOVED.items():
                top = largest // (ranks if call in ("AllGather", "ReduceScatter") else 1)
                if mode == "processes":
                    top = min(top, 1 << 26)
                sizes = [size for size in (8, 1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 26, 1 << 28, 1 << 30, 1 << 32) if size <= top]
                results = run_job(mode, {"task": "bench", "ranks": ranks, "call": call, "sizes": sizes, "mode": mode}, options.limit)
                if any("error" in result for result in results):
                    report.check(f"bench {call}, {ranks} ranks as {mode}", results)
                    continue
                for i, size in enumerate(sizes):
                    us = max(result["rows"][i]["us"] for result in results)
                    host = max(result["rows"][i]["host_us"] for result in results)
                    bound_us = moved(ranks) * size / (report.facts["copy_gbytes_per_s"] * 1e3)
                    report.benches.append({"call": call, "mode": mode, "ranks": ranks, "bytes": size, "us": us, "host_us": host,
                                           "of_bound": bound_us / us})
                last = report.benches[-1]
                print(f"bench {call} {ranks} {mode}: 8 B {report.benches[-len(sizes)]['us']:.1f} us, {last['bytes']} B "
                      f"{100 * last['of_bound']:.0f}% of the bound", flush=True)


def with_jobs(part):
    return lambda report, options: part(report, options, run_job)


def contact(name):
    return with_jobs(gpu_contact.PARTS[name])


# First contact first, the fault last: a process that saw one is of no use any more.
PARTS = {"probe": contact("probe"), "two-threads": contact("two-threads"), "protocols": with_jobs(gpu_protocols.run), "two-processes": contact("two-processes"),
         "connections": contact("connections"), "latency": contact("latency"), "bandwidth": contact("bandwidth"), "torch": gpu_programs.torch,
         "fault": contact("fault"), "correctness": correctness, "staged": staged, "devices": devices, "failures": failures, "bench": bench, "paths": with_jobs(gpu_paths.run),
         "hosts": with_jobs(gpu_hosts.run), "vendor": with_jobs(gpu_vendor.run), "sanitizer": gpu_programs.sanitizer, "nccl-tests": gpu_programs.nccl_tests}


# --- the report --------------------------------------------------------------------------------------------------------

def markdown(report, name):
    lines = [f"# GPU: {name}", "", "| | |", "| --- | --- |"]
    lines += [f"| {key} | {value:.0f} |" if isinstance(value, float) else f"| {key} | {value} |" for key, value in report.facts.items()]
    lines += ["", "## Checks", "", "| check | result |", "| --- | --- |"]
    lines += [f"| {check['name']} | {'passed' if check['passed'] else 'FAILED: ' + check['detail'].replace('|', '/')} |" for check in report.checks]
    lines += [f"| {skip['name']} | skipped: {skip['why']} |" for skip in report.skipped]
    lines += gpu_contact.markdown(report)
    if report.benches:
        lines += ["", "## Time", "", "Each figure is the mean of one run, at the slowest rank. The bound is the time in which the",
                  "device's own copy moves the bytes that must be read and written: n ranks of S bytes, AllReduce and Broadcast and",
                  "SendRecv 2 n S, AllGather 2 n n S, ReduceScatter (n n + n) S (S as the call counts them).", "",
                  "| call | ranks | as | bytes | us | host us | of the bound |", "| --- | --- | --- | --- | --- | --- | --- |"]
        lines += [f"| {row['call']} | {row['ranks']} | {row['mode']} | {row['bytes']} | {row['us']:.1f} | {row['host_us']:.1f} | {100 * row['of_bound']:.1f}% |"
                  for row in report.benches]
    if report.paths:
        lines += gpu_paths.markdown(report.paths)
    if report.protocols:
        lines += gpu_protocols.markdown(report.protocols)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Tests and measurements that need a GPU.")
    parser.add_argument("--results", default="results")
    parser.add_argument("--only", default=",".join(PARTS), help="parts: " + ", ".join(PARTS))
    parser.add_argument("--ranks", default="2,4,8", type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--quick", action="store_true", help="fewer cases and sizes")
    parser.add_argument("--whole", default="", help="parts for which --quick does not hold")
    parser.add_argument("--limit", default=120, type=int, help="seconds for one job")
    parser.add_argument("--short", default=30, type=int, help="seconds for one job of the first contact")
    parser.add_argument("--budget", type=int, help="seconds for all: parts that would begin later are skipped")
    parser.add_argument("--stacks-after", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--probe-calls", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--probe-captures", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--threads-of", help=argparse.SUPPRESS)
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.threads_of or options.rank_of:
        worker_main(options)
    if options.probe_calls:
        gpu_contact.probe_worker()
    if options.probe_captures:
        gpu_contact.capture_worker()
    Told.folder = pathlib.Path(options.results) / "told"
    if options.budget:
        Told.ends_at = time.monotonic() + options.budget
    try:
        driver = Driver()
    except (OSError, Failure) as error:
        print(f"gpu-check: no usable GPU ({error}): nothing was checked", file=sys.stderr)
        return 2
    report = Report(driver)
    quick = options.quick
    for part in options.only.split(","):
        options.quick = quick and part not in options.whole.split(",")
        if part not in PARTS:
            parser.error(f"no part {part}")
        if Told.ends_at is not None and time.monotonic() > Told.ends_at:
            report.skip(part, f"the {options.budget} s of --budget are over")
            continue
        begin = time.monotonic()
        try:
            PARTS[part](report, options)
        except Exception as error:  # the other parts still run
            report.check(part, [{"error": repr(error)}])
        print(f"      {part}: {time.monotonic() - begin:.1f} s", flush=True)
    name = "-".join(driver.name().lower().replace("nvidia", "").split()) or "gpu"
    folder = pathlib.Path(options.results)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"gpu-{name}.md").write_text(markdown(report, name))
    (folder / f"gpu-{name}.json").write_text(json.dumps({"facts": report.facts, "checks": report.checks, "skipped": report.skipped,
                                                         "benches": report.benches, "paths": report.paths, "waits": report.waits, "captures": report.captures, "figures": report.figures,
                                                         "protocols": report.protocols}, indent=1))
    failed = sum(not check["passed"] for check in report.checks)
    print(f"{len(report.checks) - failed} passed, {failed} failed, {len(report.skipped)} skipped: {folder}/gpu-{name}.md")
    return 1 if failed else 0


sys.exit(main())
