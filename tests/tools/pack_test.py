"""sccl pack, driven as a user drives it. Usage: pack_test.py SCCL"""
import json
import pathlib
import subprocess
import sys
import tempfile
from fractions import Fraction

SCCL = sys.argv[1]
failures = []


def run(*arguments):
    return subprocess.run([SCCL, *arguments], capture_output=True, text=True, timeout=120)


def expect(condition, what):
    if not condition:
        failures.append(what)


def packed(*arguments):
    result = run("pack", "--json", *arguments)
    expect(result.returncode == 0, f"{arguments}: exit {result.returncode}, {result.stderr}")
    return json.loads(result.stdout)


def check_weights(answer, what):
    """Weights sum up to the rate exactly, and every tree spans."""
    blocks = len({tree["root"] for tree in answer["trees"]}) if answer["collective"] in ("allgather", "reducescatter") else 1
    total = sum(Fraction(tree["weight_exact"]) for tree in answer["trees"])
    expect(total == blocks * Fraction(answer["rate_exact"]), f"{what}: weights sum up to {total}")
    for tree in answer["trees"]:
        reached = {tree["root"]}
        edges = list(tree["edges"])
        while edges:
            usable = [edge for edge in edges if edge[0] in reached]
            if not usable:
                break
            reached |= {edge[1] for edge in usable}
            edges = [edge for edge in edges if edge not in usable]
        expect(not edges and len(reached) == len(tree["edges"]) + 1, f"{what}: a tree does not span")


def test_rates():
    for arguments, rate, trees in (
            (("--topo", "dgx1v"), "6", 4),
            (("--topo", "dgx1v", "--unit-trees"), "6", 6),
            (("--topo", "dgx1v", "--collective", "allreduce"), "24/7", None),
            (("--topo", "dgx1p", "--collective", "allreduce"), "16/7", None),
            (("--topo", "dgx2", "--collective", "allgather"), "2/5", 16),
            (("--topo", "dgx1v", "--devices", "1,4,5,6", "--collective", "reduce", "--root", "3"), "2", 2),
            (("--topo", "nvpairs4", "--capacity", "bandwidth"), "54/25", None)):
        answer = packed(*arguments)
        expect(answer["rate_exact"] == rate, f"{arguments}: rate {answer['rate_exact']}")
        expect(answer["optimum"] == answer["rate"] and answer["proof"] == "cut", f"{arguments}: not proved")
        expect(trees is None or len(answer["trees"]) == trees, f"{arguments}: {len(answer['trees'])} trees")
        cut = answer["cut"]
        expect(arguments[-1] == "bandwidth" or
               Fraction(cut["crossing"], cut["crossings_per_unit"]) == Fraction(rate), f"{arguments}: the cut {cut}")
        check_weights(answer, arguments)


def test_schedule():
    with tempfile.TemporaryDirectory() as folder:
        for collective in ("broadcast", "reduce", "allreduce", "allgather", "reducescatter"):
            path = pathlib.Path(folder) / f"{collective}.json"
            packed("--topo", "dgx1v", "--devices", "0,1,2,4,6", "--collective", collective, "--out", str(path))
            expect(run("verify", str(path)).returncode == 0, f"the schedule of {collective} is refused")
            schedule = json.loads(path.read_text())
            expect(schedule["pipelined"] and schedule["collective"] == collective, f"{collective}: wrong schedule")
        packed("--topo", "dgx1p", "--out", str(path), "--frames", "8")
        expect(run("verify", str(path)).returncode == 0, "the schedule in frames is refused")
        expect(json.loads(path.read_text())["chunks"] == 4 * 8, "four trees in eight frames are not 32 chunks")
        answer = packed("--topo", "2*dgx1v", "--collective", "allreduce", "--bytes", "64M", "--out", str(path))
        times = {one["algo"]: one["time_us"] for one in answer["schedules"]}
        expect({"trees", "trees/8", "three-phase"} <= set(times), f"ways to send: {list(times)}")
        expect(list(times.values()) == sorted(times.values()) and times["trees/8"] < times["trees"], f"times {times}")
        expect(run("verify", str(path)).returncode == 0, "the fastest schedule is refused")
        expect(json.loads(path.read_text())["chunks"] == answer["schedules"][0]["chunks"], "another schedule was written")


def test_clusters():
    """Hosts alike: the rate is the bound of the NICs; one tree for each position stands for those of all hosts."""
    for topo, rate in (("3*dgx-a100", "1/2"), ("4*pcie8", "3/31"), ("16*dgx-a100", "1/15"), ("64*dgx-h100", "1/63")):
        hosts = int(topo.split("*")[0])
        answer = packed("--topo", topo, "--collective", "allgather")
        expect((answer["rate_exact"], answer["optimum_exact"]) == (rate, rate), f"{topo}: {answer['rate_exact']} of {answer['optimum_exact']}")
        check_weights(answer, topo)
        listed = hosts * 8 <= 128
        expect(all(("multiplicity" in tree) != listed for tree in answer["trees"]), f"{topo}: trees are listed in another way")
        expect(listed or all(tree["multiplicity"] == hosts and tree["root"] < 8 for tree in answer["trees"]), f"{topo}: representatives")
    answer = packed("--topo", "64*dgx1v", "--collective", "broadcast", "--root", "77")
    expect(answer["rate_exact"] == "8" and answer["proof"] == "cut", f"broadcast: {answer['rate_exact']}")
    check_weights(answer, "broadcast from rank 77")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "schedule.json"
        packed("--topo", "6*pcie4", "--collective", "reducescatter", "--out", str(path))
        expect(run("verify", str(path)).returncode == 0, "the schedule of a cluster is refused")
    for arguments, said in ((("--root", "512"), "root 512"), (("--bytes", "1M"), "--bytes"), (("--out", "/tmp/never"), "at most 128 ranks")):
        result = run("pack", "--topo", "64*dgx-h100", "--collective", "broadcast", *arguments)
        expect(result.returncode == 2 and said in result.stderr, f"64*dgx-h100 {arguments}: {result.returncode} {result.stderr}")


def test_bad_input():
    for arguments, said in (
            (("--topo", "dgx1v", "--devices", "0,1,6"), "no path leads from rank 0 (device 0) to 2 (device 6)"),
            (("--topo", "dgx1v", "--root", "8"), "root 8"),
            (("--topo", "dgx1v", "--collective", "alltoall"), "alltoall"),
            (("--topo", "dgx1v", "--collective", "sum"), "unknown collective 'sum'"),
            (("--topo", "dgx1v", "--devices", "3"), "at least two"),
            (("--topo", "dgx9"), "dgx9"),
            (("--topo", "dgx1v", "--devices", "1,1"), "twice"),
            (("--topo", "dgx1v", "--out", "/no/such/folder/file"), "cannot be written"),
            (("--topo", "dgx1v", "--frames", "0"), "--frames"),
            (("--topo", "dgx1v", "--bytes", "many"), "many"),
            (("--topo", "dgx1v", "--bytes", "1M", "--frames", "2"), "--frames"),
            ((), "--topo")):
        result = run("pack", *arguments)
        expect(result.returncode == 2, f"{arguments}: exit {result.returncode}")
        expect(said in result.stderr + result.stdout, f"{arguments}: {result.stderr}")


test_rates()
test_schedule()
test_clusters()
test_bad_input()
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
