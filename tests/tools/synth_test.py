"""sccl synth, driven as a user drives it. Usage: synth_test.py SCCL"""
import json
import os
import stat
import subprocess
import sys
import tempfile

sccl = sys.argv[1]
failures = []


def run(*arguments, env=None):
    return subprocess.run([sccl, *arguments], capture_output=True, text=True, timeout=200, env={**os.environ, **(env or {})})


def expect(condition, what):
    if not condition:
        failures.append(what)


def synth(*arguments, code, env=None):
    result = run("synth", *arguments, env=env)
    expect(result.returncode == code,
           f"synth {' '.join(arguments)}: exit {result.returncode} instead of {code}: {result.stdout[:300]}{result.stderr}")
    return result


def size(chunks, steps, rounds):
    return ["--chunks", str(chunks), "--steps", str(steps), "--rounds", str(rounds)]


def test_one_schedule(folder):
    path = os.path.join(folder, "schedule.json")
    answer = json.loads(synth("--topo", "dgx1v", "--collective", "allgather", *size(2, 2, 3), "--out", path, "--json",
                              code=0).stdout)
    expect(answer["result"] == "sat" and answer["seconds"] >= 0, f"answer {answer}")
    schedule = answer["schedule"]
    expect(schedule["chunks_per_rank"] == 2 and schedule["steps"] <= 2 and sum(schedule["rounds"]) <= 3, "another size")
    expect(run("verify", path).returncode == 0, "the schedule written is not right")
    with open(path) as file:
        expect(json.load(file) == schedule, "--out is not what --json shows")
    for collective, chunks in (("allreduce", 8), ("reduce", 2), ("scatter", 8), ("alltoall", 8)):
        rounds = 6 if collective == "allreduce" else 4
        synth("--topo", "dgx1v", "--collective", collective, *size(chunks, 4, rounds), "--root", "0", "--out", path, code=0)
        expect(run("verify", path).returncode == 0, f"the {collective} written is not right")


def test_no(folder):
    for arguments in (["dgx1v", "allgather", *size(3, 2, 4)], ["z52", "alltoall", *size(8, 4, 7)],
                      ["dgx1v", "allgather", *size(1, 1, 5)], ["dgx1v", "allgather", *size(10**6, 2, 2)]):
        answer = json.loads(synth("--topo", arguments[0], "--collective", *arguments[1:], "--json", code=1).stdout)
        expect(answer["result"] == "unsat" and answer["reason"] and "schedule" not in answer, f"{arguments}: {answer}")
    answer = json.loads(synth("--topo", "dgx1v", "--devices", "0,6", "--collective", "allgather", *size(1, 2, 2), "--json",
                              code=1).stdout)
    expect("not connected" in answer["reason"], f"{answer}")
    expect(json.loads(synth("--topo", "dgx1v", "--devices", "0,6", "--collective", "allgather", "--pareto", "--json",
                            code=1).stdout)["frontier"] == [], "a frontier without links")
    answer = json.loads(synth("--topo", "dgx1v", "--collective", "allgather", *size(6, 3, 7), "--budget", "0", "--json",
                              code=1).stdout)
    expect(answer["result"] == "unknown", f"no time at all: {answer}")


def test_pareto(folder):
    path = os.path.join(folder, "frontier.json")
    cache = os.path.join(folder, "cache")
    arguments = ["--topo", "dgx1v", "--devices", "0,1,4,5,6", "--collective", "allgather", "--pareto", "--cache", "--json"]
    answer = json.loads(synth(*arguments, "--out", path, code=0, env={"SCCL_CACHE_DIR": cache}).stdout)
    points = answer["frontier"]
    expect({"chunks", "steps", "rounds", "seconds", "optimal"} <= set(points[0]), f"fields {set(points[0])}")
    expect(points[0]["optimal"] in ("latency", "both") and points[-1]["optimal"] in ("bandwidth", "both"), "the ends")
    expect(answer["seconds"] > 0 and "bound" in answer["proved"], "what is proved")
    expect(answer["frontier"][0]["schedule"]["topology"]["devices"] == [0, 1, 4, 5, 6], "devices")
    with open(path) as file:
        expect(json.load(file) == answer, "--out is not what --json shows")
    expect(stat.S_IMODE(os.stat(cache).st_mode) == 0o700 and len(os.listdir(cache)) == 1, "the cache's folder")
    # The same five devices under other numbers: answered from the cache, which says when it was found.
    arguments[3] = "6,5,4,1,0"
    again = json.loads(synth(*arguments, code=0, env={"SCCL_CACHE_DIR": cache}).stdout)
    expect(again["seconds"] == answer["seconds"], "the entry of equivalent devices was not used")
    expect(again["frontier"][0]["schedule"]["topology"]["devices"] == [6, 5, 4, 1, 0], "devices of the second job")
    one = json.loads(synth("--topo", "dgx1v", "--collective", "allgather", "--pareto", "--k", "1", "--json", code=0).stdout)
    expect(any((p["chunks"], p["steps"], p["rounds"]) == (3, 3, 4) for p in one["frontier"]), "3,3,4 is not found")
    expect("latency-optimal" in synth("--topo", "z52", "--collective", "gather", "--pareto", code=0).stdout, "the statement")


def test_reference(folder):
    answer = json.loads(synth("--topo", "dgx1v", "--collective", "allgather", *size(1, 2, 2), "--reference", "--json",
                              code=0).stdout)
    expect(answer["result"] == "sat", f"the reference: {answer}")
    synth("--topo", "dgx1v", "--collective", "reduce", *size(1, 2, 2), "--reference", code=2)


def test_bad_usage(folder):
    broken = os.path.join(folder, "broken.json")
    with open(broken, "w") as file:
        file.write('{"ranks": 3}')
    base = ["--topo", "dgx1v", "--collective", "allgather"]
    for arguments in ([], base, [*base, "--chunks", "1"], [*base, *size(0, 2, 2)], [*base, *size(1, -2, 2)],
                      [*base, *size(1, 2, 2), "--pareto"], [*base, *size(1, 2, 2), "--k", "2"], [*base, "--pareto", "--k", "-1"],
                      [*base, "--pareto", "--devices", "0,9"], [*base, "--pareto", "--devices", "0,0"],
                      ["--topo", "no-such", "--collective", "allgather", "--pareto"],
                      ["--topo", broken, "--collective", "allgather", "--pareto"],
                      ["--topo", "dgx1v", "--collective", "allfool", "--pareto"],
                      ["--topo", "dgx1v", "--collective", "sendrecv", "--pareto"],
                      ["--topo", "dgx1v", "--collective", "broadcast", "--pareto", "--root", "8"],
                      ["--topo", "dgx1v", "--collective", "alltoall", *size(7, 2, 9)],
                      [*base, *size(1, 2, 2), "--out", "/no/such/folder/file"]):
        result = synth(*arguments, code=2)
        expect(result.stderr.strip() != "", f"no message for {arguments}")


with tempfile.TemporaryDirectory() as where:
    for test in (test_one_schedule, test_no, test_pareto, test_reference, test_bad_usage):
        test(where)
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
