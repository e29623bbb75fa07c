"""Traces: what sccl simulate foresees, and the merging of what processes wrote. Usage: trace_test.py SCCL"""
import json
import os
import subprocess
import sys
import tempfile

sccl = sys.argv[1]
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)


def run(*arguments):
    return subprocess.run([sccl, *arguments], capture_output=True, text=True, timeout=200)


def clock(process, boot, offset):
    return {"ph": "M", "name": "sccl_clock", "pid": process, "tid": 0,
            "args": {"host": boot, "boot": boot, "realtime_minus_monotonic_us": offset}}


def call(process, begin, number, communicator="c1"):
    return {"ph": "X", "name": "AllReduce", "cat": "call", "pid": process, "tid": 1, "ts": begin, "dur": 10.0,
            "args": {"number": number, "communicator": communicator}}


def write(folder, name, events, end="]\n"):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write("[\n" + "".join(json.dumps(event) + ",\n" for event in events) + end)
    return path


def merged(folder, *arguments):
    path = os.path.join(folder, "merged.json")
    result = run("trace", "merge", *arguments, "--out", path)
    expect(result.returncode == 0, f"merge {arguments}: {result.stderr}")
    with open(path) as file:
        return json.load(file), result


def test_foreseen(folder):
    path = os.path.join(folder, "foreseen.json")
    result = run("simulate", "--topo", "dgx1v", "--collective", "allgather", "--bytes", "1M", "--trace", path, "--timeline", "--json")
    expect(result.returncode == 0, result.stderr)
    answer = json.loads(result.stdout)
    with open(path) as file:
        events = json.load(file)
    transfers = [event for event in events if event.get("cat") == "transfer"]
    expect(len(transfers) == len(answer["timeline"]), "a trace has one event a transfer")
    expect(all(event["ts"] + event["dur"] <= answer["time_us"] + 0.002 for event in transfers), "a transfer ends after the call")
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    expect(names == {f"rank {rank} (foreseen)" for rank in range(8)}, f"processes are named {names}")
    expect(all(event["pid"] > 0 and event.get("tid", 1) > 0 for event in events if event["ph"] == "X"), "viewers hide number 0")
    for _, track in sorted({(event["pid"], event["tid"]) for event in transfers}):
        expect(track > 1, "transfers lie on the track of calls")
    expect(run("simulate", "--topo", "dgx1v", "--collective", "allgather", "--bytes", "1M", "--trace", "/no/such/folder/t").returncode == 2,
           "a trace that cannot be written")
    return path


def test_merge(folder, foreseen):
    near = write(folder, "near.json", [clock(7, "a", 100.0), call(7, 1000.0, 1), call(7, 1100.0, 2)])
    same_host = write(folder, "same.json", [clock(7, "a", 107.0), call(7, 1003.0, 1)])
    far = write(folder, "far.json", [clock(7, "b", 600.0), call(7, 504.0, 1)])
    events, result = merged(folder, near, same_host, far)
    expect(sorted(event["pid"] for event in events) == [1, 1, 2, 3], "processes of several files share a number")
    expect(sorted(event["ts"] for event in events) == [0.0, 3.0, 4.0, 100.0], f"times are {[event['ts'] for event in events]}")
    expect("far.json: of another host" in result.stderr, "another host's clock is not noted")
    events, _ = merged(folder, near, "--foreseen", foreseen, "--call", "2")
    calls = [event["ts"] for event in events if event.get("cat") == "foreseen"]
    expect(len(calls) == 8 and all(abs(begin - 100.0) < 1e-6 for begin in calls), f"the foreseen call begins at {calls}")
    for wrong in (["--call", "3"], ["--call", "2", "--communicator", "c2"], []):
        result = run("trace", "merge", near, "--foreseen", foreseen, *wrong, "--out", os.path.join(folder, "x"))
        expect(result.returncode == 2 and len(result.stderr.splitlines()) <= 2, f"merge {wrong}: {result}")


def test_damage(folder):
    cut = write(folder, "cut.json", [call(7, 1.0, 1)], end='{"ph":"X","name":"AllRed')
    events, result = merged(folder, cut)
    expect(len(events) == 1 and "cut.json:3" in result.stderr, "the last line of a killed process is not passed over")
    noise = write(folder, "noise.json", [call(7, 1.0, 1), {"ph": "X", "pid": 1}, {"ph": 3, "pid": 2}, {"pid": "x", "ph": "X"}, 5, [], None])
    events, result = merged(folder, noise)
    expect(len(events) == 1, "lines that are no events are merged")
    strange = write(folder, "strange.json", [call(7, 1.0, 1), {"ph": "X", "pid": 1, "ts": 2, "cat": "call", "args": 4},
                                             {"ph": "X", "pid": 1, "ts": 2, "cat": 5, "name": 7, "args": {"number": "x"}},
                                             {"ph": "X", "pid": 1, "ts": 2, "cat": "call", "args": {"number": "x", "communicator": 3}},
                                             {"ph": "M", "pid": 1, "name": 9, "args": {"boot": 7}},
                                             {"ph": "M", "pid": 1, "name": "sccl_clock", "args": {"realtime_minus_monotonic_us": "x"}}])
    merged(folder, strange, "--foreseen", strange, "--call", "1", "--communicator", "c1")
    for wrong in (write(folder, "empty.json", []), "/no/such/file", "/dev/null"):
        result = run("trace", "merge", wrong, "--out", os.path.join(folder, "x"))
        expect(result.returncode == 2 and len(result.stderr.splitlines()) == 1, f"merge of {wrong}: {result}")
    for wrong in (["trace"], ["trace", "merge"], ["trace", "split"], ["trace", "merge", cut]):
        expect(run(*wrong).returncode == 2, f"{wrong}")


def track(process, rank, ranks, lane=""):
    return {"ph": "M", "name": "thread_name", "pid": process, "tid": 1, "args": {"name": f"rank {rank} of {ranks}, c1{lane}"}}


def test_arrivals(folder):
    """Every call's last rank is counted, and one that is last time and again is named."""
    def of_rank(rank, delay, calls=40):
        return write(folder, f"rank{rank}.json", [clock(7, "a", 0.0), {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": f"n{rank}, process 7"}},
                     track(7, rank, 3)] + [call(7, 1000.0 * number + delay, number) for number in range(1, calls + 1)])

    traces = [of_rank(0, 0.0), of_rank(1, 100.0, 39), of_rank(2, 10.0)]
    delays = os.path.join(folder, "delays")
    result = run("trace", "arrivals", *traces, "--out", delays)
    expect(result.returncode == 0 and "rank 1 was last in 100 % of 39 calls, 90.0 us after the median; n1, process 7" in result.stdout
           and "1 calls are not in all" in result.stdout, f"trace arrivals: {result}")
    with open(delays) as file:
        lines = [line for line in file.read().splitlines() if not line.startswith("#")]
    expect(lines == ["0.0 100.0 10.0"] * 39, f"delays are {lines[:3]}")
    answer = json.loads(run("trace", "arrivals", *traces, "--json").stdout)
    expect([rank["last"] for rank in answer[0]["ranks"]] == [0, 39, 0] and answer[0]["calls"] == 39, f"{answer}")
    even = [of_rank(0, 0.0), of_rank(1, 0.0), of_rank(2, 0.0, 10)]
    expect("no rank of 3 is last time and again in 10 calls" in run("trace", "arrivals", *even).stdout, "nobody is late")
    for wrong in (["--communicator", "c9"], ["--out", "/no/such/folder/x"]):
        result = run("trace", "arrivals", *even, *wrong)
        expect(result.returncode == 2 and len(result.stderr.splitlines()) == 1, f"trace arrivals {wrong}: {result}")
    expect(run("trace", "arrivals", write(folder, "other.json", [call(7, 1.0, 1)])).returncode == 2, "a trace without tracks")
    strange = write(folder, "strange2.json", [track(7, 0, 1), track(8, 5, 2), {"ph": "M", "name": "thread_name", "pid": 7, "tid": 2, "args": {"name": 7}},
                    {"ph": "X", "pid": 7, "tid": 1, "ts": 2, "cat": "call", "args": {"number": -4, "communicator": "c1"}},
                    {"ph": "X", "pid": 7, "tid": "x", "ts": 2, "cat": "call", "args": {"number": 4, "communicator": "c1"}}, call(7, 1.0, 1)])
    expect(run("trace", "arrivals", strange).returncode == 0, f"strange events: {run('trace', 'arrivals', strange)}")


def test_measured(folder):
    """Every call of every rank is there once, and what was foreseen can be laid over one."""
    calls, environment = 30, {**os.environ, "SCCL_TRACE": os.path.join(folder, "measured.json")}
    perf = subprocess.run([sccl, "perf", "all_reduce", "-n", "3", "-b", "1M", "-e", "1M", "-i", str(calls), "-w", "0", "-c", "0"],
                          env=environment, capture_output=True, text=True, timeout=200)
    expect(perf.returncode == 0, perf.stderr)
    traces = [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("measured-")]
    expect(len(traces) == 3, f"3 processes wrote {len(traces)} traces")
    events, _ = merged(folder, *traces)
    by_rank = {}
    for event in events:
        if event.get("cat") == "call":
            by_rank.setdefault(event["pid"], []).append(event["args"])
    numbers = [[args["number"] for args in made if "number" in args] for made in by_rank.values()]
    expect(len(numbers) == 3 and all(made == list(range(1, len(made) + 1)) and len(made) >= calls for made in numbers),
           "a rank's calls are not there once each")
    expect(all(args["schedule"] and args["outcome"] == "done" for made in by_rank.values() for args in made if "number" in args),
           "a call has no schedule or no end")
    expect(any(event.get("cat") == "slice" for event in events), "calls of several slices show none")
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    expect({f"rank {rank} of 3" for rank in range(3)} <= {name.split(",")[0] for name in names}, f"tracks are named {names}")
    answer = json.loads(run("trace", "arrivals", *traces, "--json").stdout)
    expect(answer[0]["calls"] == len(numbers[0]) and sum(rank["last"] for rank in answer[0]["ranks"]) == len(numbers[0]),
           f"not every call has a last rank: {answer}")
    foreseen = os.path.join(folder, "foreseen.json")
    run("simulate", "--topo", "host:3", "--collective", "allreduce", "--bytes", "1M", "--trace", foreseen)
    events, _ = merged(folder, *traces, "--foreseen", foreseen, "--call", "5")
    expect(sum(event.get("cat") == "foreseen" for event in events) == 3, "the foreseen call is not laid over the measured ones")


with tempfile.TemporaryDirectory() as place:
    test_measured(place)
    test_merge(place, test_foreseen(place))
    test_damage(place)
    test_arrivals(place)
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
