"""sccl plan, simulate and explain on clusters: thousands of ranks, and bad input. Usage: plan_clusters_test.py SCCL"""
import json
import os
import subprocess
import sys
import tempfile

sccl = sys.argv[1]
failures = []
COLLECTIVES = ["allgather", "reducescatter", "allreduce", "broadcast", "reduce", "alltoall", "gather", "scatter"]


def run(*arguments):
    return subprocess.run([sccl, *arguments], capture_output=True, text=True, timeout=200)


def expect(condition, what):
    if not condition:
        failures.append(what)


def refused(arguments, told):
    """One line that says what is wrong."""
    result = run(*arguments)
    lines = (result.stdout + result.stderr).splitlines()
    expect(result.returncode == 2, f"{arguments}: exit {result.returncode}")
    expect(len(lines) == 1 and told in lines[0], f"{arguments}: {lines}")


def test_thousands_of_ranks():
    for cluster, ranks in (("256*dgx-a100", 2048), ("256*mi250x", 4096), ("2048*pcie8", 16384)):
        for collective in COLLECTIVES:
            for size in ("64K", "1G"):
                result = run("plan", "--topo", cluster, "--collective", collective, "--bytes", size, "--bound", "--json")
                expect(result.returncode == 0, f"{cluster} {collective} {size}: {result.stderr}")
                if result.returncode != 0:
                    continue
                answer = json.loads(result.stdout)
                best = answer["candidates"][0]
                expect(answer["ranks"] == ranks and best["algo"].startswith("levels/"), f"{cluster} {collective}: {best}")
                expect(best["time_us"] >= 0.999 * best["bound_us"] > 0, f"{cluster} {collective} {size}: {best}")
    result = run("simulate", "--topo", "2048*dgx-a100", "--collective", "allgather", "--bytes", "1M", "--json")
    expect(result.returncode == 0 and not json.loads(result.stdout)["simulated"], f"simulate: {result.stderr}")
    result = run("explain", "--topo", "2048*dgx-a100", "--collective", "allreduce", "--json")
    expect(result.returncode == 0, f"explain: {result.stderr}")
    if result.returncode == 0:
        expect(all(row["schedule"].startswith("levels/") for row in json.loads(result.stdout)), f"explain: {result.stdout}")


def test_flat_forms_that_are_too_large():
    large = ["--topo", "2048*dgx-a100", "--collective", "allgather", "--bytes", "1M"]
    with tempfile.TemporaryDirectory() as folder:
        for option in ("--out", "--svg", "--trace"):
            refused(["simulate", *large, option, os.path.join(folder, "file")], "too large")
    refused(["simulate", *large, "--timeline"], "too large")
    refused(["simulate", *large, "--algo", "ring"], "too many sends")
    refused(["simulate", *large, "--algo", "nonsense"], "is no kind of schedules")


def test_a_flat_form_of_a_small_cluster_is_exported():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "schedule.json")
        result = run("simulate", "--topo", "6*dgx1v", "--collective", "allgather", "--bytes", "1M", "--out", path)
        expect(result.returncode == 0, f"simulate --out: {result.stderr}")
        expect(run("verify", path).returncode == 0, "the flat form does not pass sccl verify")
        result = run("export", "--schedule", path, "--format", "msccl-xml")
        expect(result.returncode == 0 and 'ngpus="48"' in result.stdout, f"export: {result.stderr} {result.stdout[:200]}")


def test_more_pairs_of_ranks_than_are_planned():
    for verb in (["plan", "--bytes", "1M"], ["explain"]):
        refused([*verb, "--topo", "4097*dgx1v", "--collective", "alltoall"], "AlltoAll is planned for at most 32768")
    result = run("explain", "--topo", "4097*dgx1v", "--json")
    told = result.stderr.splitlines()
    expect(result.returncode == 0 and len(told) == 1 and "at most 32768" in told[0], f"explain: {result.returncode} {told}")
    if result.returncode == 0:
        rows = {row["collective"] for row in json.loads(result.stdout)}
        expect(rows == set(COLLECTIVES) - {"alltoall"}, f"explain tells of {rows}")


def topology(hosts, network):
    """`hosts` hosts of two devices each; `network` lists the devices that have a NIC on the switch."""
    ranks = 2 * hosts
    links = []
    for a, b, kind in [(2 * host, 2 * host + 1, "nvlink") for host in range(hosts)] + [(rank, ranks, "net") for rank in network]:
        for src, dst in ((a, b), (b, a)):
            links.append({"src": src, "dst": dst, "lanes": 1, "gbytes_per_s": 10, "alpha_us": 1, "class": kind})
    return {"name": "hosts", "ranks": ranks, "switches": 1, "links": links}


def test_bad_input():
    call = ["--collective", "allreduce", "--bytes", "1M"]
    for name, told in (("0*dgx1v", "has no hosts"), ("100000*dgx1v", "more than 65536 ranks"), ("99999999999999999999*dgx1v", "more than"),
                       ("-1*dgx1v", "no topology is called"), ("2*2*dgx1v", "no topology is called"), ("2*nothing", "no topology is called"),
                       ("2*", "lacks its hosts' preset")):
        for verb in ("plan", "simulate"):
            refused([verb, "--topo", name, *call], told)
    for rank in ("256", "-1"):
        refused(["plan", "--topo", "32*dgx1v", "--collective", "broadcast", "--bytes", "1M", "--root", rank], f"root {rank}")
    with tempfile.TemporaryDirectory() as folder:
        for hosts in (3, 20):   # with candidates of all kinds, and by levels alone
            path = os.path.join(folder, "hosts.json")
            with open(path, "w") as file:
                json.dump(topology(hosts, range(2, 2 * hosts)), file)
            refused(["plan", "--topo", path, *call], "no NIC joins the host of ranks 0, 1")
            with open(path, "w") as file:
                json.dump(topology(hosts, []), file)
            refused(["plan", "--topo", path, *call], "")
    refused(["plan", "--topo", "2*dgx1v", "--devices", "0,1,16", *call], "16")


for test in (test_thousands_of_ranks, test_flat_forms_that_are_too_large, test_a_flat_form_of_a_small_cluster_is_exported,
             test_more_pairs_of_ranks_than_are_planned, test_bad_input):
    test()
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
