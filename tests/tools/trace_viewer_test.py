"""The trace of 8 ranks as viewers read it. Usage: trace_viewer_test.py SCCL form|processor

form: every event is one of the trace event format, slices of a track lie within one another or apart (viewers drop others), and
every rank's calls are there once each. processor: Perfetto's trace processor opens the file, drops nothing and counts as many
slices; skipped where the Python package `perfetto` or its binary, which it downloads, is missing."""
import collections
import json
import os
import subprocess
import sys
import tempfile

RANKS, SKIPPED = 8, 77
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)


def make_trace(sccl, folder):
    """Several collectives of 8 processes, as a step of training has them; merged."""
    environment = {**os.environ, "SCCL_TRACE": os.path.join(folder, "run.json")}
    for collective, size in (("all_reduce", "256K"), ("all_gather", "4K"), ("reduce_scatter", "64K")):
        run = subprocess.run([sccl, "perf", collective, "-n", str(RANKS), "-b", size, "-e", size, "-i", "5", "-w", "0", "-c", "0"],
                             env=environment, capture_output=True, text=True, timeout=200)
        expect(run.returncode == 0, run.stderr)
    traces = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("run-"))
    expect(len(traces) == 3 * RANKS, f"{3 * RANKS} processes wrote {len(traces)} traces")
    merged = os.path.join(folder, "merged.json")
    result = subprocess.run([sccl, "trace", "merge", *traces, "--out", merged], capture_output=True, text=True, timeout=100)
    expect(result.returncode == 0, result.stderr)
    return merged


def check_event(event):
    number = (int, float)
    expect(event["ph"] in ("X", "M") and isinstance(event["name"], str), f"no slice and no name: {event}")
    expect(type(event["pid"]) is int and type(event["tid"]) is int, f"tracks are numbers: {event}")
    if event["ph"] == "M":
        expect(event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str), f"names what: {event}")
    else:
        expect(event["pid"] > 0 and event["tid"] > 0, f"viewers hide number 0: {event}")
        expect(isinstance(event["ts"], number) and isinstance(event["dur"], number) and event["ts"] >= 0 and event["dur"] >= 0,
               f"times are numbers: {event}")
        expect(isinstance(event["cat"], str) and isinstance(event.get("args", {}), dict), f"category and arguments: {event}")


def check_nesting(slices):
    """In nanoseconds, as viewers keep time."""
    tracks = collections.defaultdict(list)
    for event in slices:
        begin = round(event["ts"] * 1000)
        tracks[event["pid"], event["tid"]].append((begin, -round((event["ts"] + event["dur"]) * 1000), event["name"]))
    for track, events in tracks.items():
        open_ends = []
        for begin, negative_end, name in sorted(events):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            expect(not open_ends or -negative_end <= open_ends[-1], f"track {track}: {name} ends after the slice that it lies in")
            open_ends.append(-negative_end)


def check_calls(slices):
    numbers = collections.defaultdict(list)
    for event in slices:
        if event["cat"] == "call" and "number" in event["args"]:
            numbers[event["args"]["communicator"], event["pid"]].append(event["args"]["number"])
    expect(len(numbers) == 3 * RANKS, f"{len(numbers)} ranks have calls")
    of_communicator = collections.defaultdict(set)
    for (communicator, _), made in numbers.items():
        expect(made == list(range(1, len(made) + 1)), f"calls of a rank of {communicator} are {made}")
        of_communicator[communicator].add(len(made))
    expect(all(len(counts) == 1 for counts in of_communicator.values()), f"ranks made different numbers of calls: {of_communicator}")


def check_form(merged):
    with open(merged) as file:
        events = json.load(file)
    for event in events:
        check_event(event)
    slices = [event for event in events if event["ph"] == "X"]
    check_nesting(slices)
    check_calls(slices)


def check_processor(merged):
    try:
        from perfetto.trace_processor import TraceProcessor
        processor = TraceProcessor(trace=merged)
    except Exception as reason:  # whatever the package meets where it may not download
        print(f"skipped: no trace processor: {reason!r}")
        sys.exit(SKIPPED)
    with open(merged) as file:
        written = collections.Counter(event["cat"] for event in json.load(file) if event["ph"] == "X")
    read = {row.category: row.n for row in processor.query("select category, count(*) as n from slice group by category")}
    expect(read == dict(written), f"slices by category: {read} read, {dict(written)} written")
    lost = {row.name: row.value for row in processor.query("select name, value from stats where severity != 'info' and value > 0")}
    expect(not lost, f"the trace processor passed over: {lost}")
    print(f"{sum(read.values())} slices: {read}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        trace = make_trace(sys.argv[1], place)
        {"form": check_form, "processor": check_processor}[sys.argv[2]](trace)
    for failure in failures[:20]:
        print(failure)
    sys.exit(1 if failures else 0)
