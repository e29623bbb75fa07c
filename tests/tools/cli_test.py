"""The sccl command: exit codes, tables, files. Usage: cli_test.py SCCL GROUP SOURCE_DIR"""
import csv
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml_tree

sccl, group, source = sys.argv[1:4]
failures = []


def run(*arguments, env=None):
    return subprocess.run([sccl, *arguments], capture_output=True, text=True, timeout=200, env={**os.environ, **(env or {})})


def expect(condition, what):
    if not condition:
        failures.append(what)


def expect_code(result, code, what):
    expect(result.returncode == code, f"{what}: exit {result.returncode} instead of {code}: {result.stdout}{result.stderr}")


def test_arrival():
    """Ranks are late as asked for; who is late is named, at most once a minute."""
    late = ["perf", "all_reduce", "-n", "4", "-b", "64K", "-e", "64K", "-w", "1"]
    for place in ([], ["--threads"]):
        result = run(*late, "-i", "100", "--arrival", "one=1:20ms", *place, env={"NCCL_DEBUG": "INFO"})
        expect_code(result, 0, f"perf --arrival {place}")
        named = re.findall(r"rank (\d) was last in \d+ % of \d+ calls, [0-9.]+ ms after the median; host ", result.stdout)
        expect(named == ["1"], f"the late rank is named {named}")
    for pattern in ("mif=10", "mif=0.5", "one=20", "half=20", "half=300us"):
        result = run(*late, "-i", "3", "--arrival", pattern, "--json")
        expect_code(result, 0, f"--arrival {pattern}")
        for row in json.loads(result.stdout)["rows"]:
            expect(row["wrong"] == 0 and row["us"] > 0 and row["in_call_us"] > 0, f"--arrival {pattern}: {row}")
            expect((row["message_us"] is None) == pattern.endswith("us"), f"--arrival {pattern}: {row}")
    for name in ("all_gather", "broadcast", "reduce", "sendrecv"):
        expect_code(run("perf", name, "-n", "3", "-b", "24", "-e", "48K", "-f", "2000", "-i", "2", "--arrival", "mif=5"), 0, f"{name} --arrival")
    with tempfile.TemporaryDirectory() as folder:
        delays, table = os.path.join(folder, "delays"), os.path.join(folder, "table.csv")
        with open(delays, "w") as file:
            file.write("# us\n0 100 0 2.5\n\n50 0 0 0 # rank 0\n")
        expect_code(run(*late, "-i", "3", "--arrival", "file=" + delays, "--csv", table), 0, "--arrival file=")
        with open(table, newline="") as file:
            rows = list(csv.DictReader(file))
        expect(len(rows) == 2 and all(float(row["spread_us"]) > 0 for row in rows), f"the CSV of --arrival is {rows}")
        for text, told in (("0 1\n", ":1: 2 delays for 4 ranks"), ("0 0 0 0\n0 x 0 0\n", ":2: 'x'"), ("# none\n", "no delays"),
                           ("0 0 0 -1\n", ":1: '-1'"), ("1e99 0 0 0\n", ":1: '1e99'")):
            with open(delays, "w") as file:
                file.write(text)
            result = run(*late, "--arrival", "file=" + delays)
            expect_code(result, 2, f"delays {text!r}")
            expect(told in result.stderr, f"delays {text!r}: {result.stderr}")
    for wrong in ("mif", "mif=", "mif=-1", "mif=nan", "late=3", "one=4:3ms", "one=x:3", "one=3h", "half=100s", "file=/no/such", "20"):
        result = run(*late, "--arrival", wrong)
        expect_code(result, 2, f"--arrival {wrong}")
        expect(sum("--arrival: " in line for line in result.stderr.splitlines()) == 1, f"--arrival {wrong}: {result.stderr}")
    expect_code(run("perf", "all_reduce", "-n", "1", "--arrival", "mif=2"), 2, "--arrival of one rank")


def test_perf():
    names = "all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter sendrecv".split()
    for name in names:
        for ranks in ("1", "2", "3"):
            for place in ([], ["--threads"]):
                result = run("perf", name, "-n", ranks, "-b", "24", "-e", "48K", "-f", "16", "-i", "2", "-w", "1", *place)
                expect_code(result, 0, f"perf {name} -n {ranks} {place}")
                rows = [line.split("|") for line in result.stdout.splitlines() if line and not line.startswith("#")]
                expect(len(rows) == 3, f"perf {name}: {len(rows)} rows")
                expect(all(row[1].split()[3] == "0" for row in rows), f"perf {name}: wrong elements or no count of them")
    result = run("perf", "all_reduce", "-n", "2", "-d", "all", "-o", "all", "-b", "64", "-e", "64", "-i", "1", "--json")
    expect_code(result, 0, "perf with all types and operations")
    rows = json.loads(result.stdout)["rows"]
    expect(len(rows) == 12 * 6 * 2, f"{len(rows)} rows for all types and operations")
    expect(all(row["wrong"] == 0 for row in rows), "wrong elements")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "table.csv")
        expect_code(run("perf", "broadcast", "-n", "2", "-b", "8", "-e", "64", "-f", "8", "--csv", path), 0, "perf --csv")
        with open(path, newline="") as file:
            expect(len(list(csv.DictReader(file))) == 4, "CSV has another number of rows")
    with tempfile.TemporaryDirectory() as folder:
        alone = {"SCCL_CACHE_DIR": folder}
        for name in ("all_reduce", "broadcast"):
            result = run("perf", name, "-n", "2", "-b", "1M", "-e", "1M", "-i", "25", "-w", "0", "-c", "0", "--trace-tuning", env=alone)
            expect_code(result, 0, "perf --trace-tuning")
            part = next(part for part in result.stdout.split("# tuning ") if "of 1048576 bytes" in part)
            course = [line.split() for line in part.splitlines() if line.startswith("  ")]
            expect(len(course) >= 5, f"the course of tuning has {len(course)} calls")
            slices = [int(field) for fields in course for field in fields[1:] if field.isdigit() and int(field) >= 4096]
            expect(slices[1] == 2 * slices[0], f"slices do not double: {slices}")
        # What a race has settled serves the next job.
        result = run("perf", "all_reduce", "-n", "2", "-b", "64", "-e", "64", "-i", "900", "-w", "0", "--trace-tuning", env=alone)
        expect_code(result, 0, "perf with a race")
        result = run("perf", "all_reduce", "-n", "2", "-b", "64", "-e", "64", "-i", "5",
                     env={**alone, "SCCL_TUNE": "load", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING"})
        expect("measured before" in result.stdout, "a measured choice does not serve the next job")
        rows = json.loads(run("explain", "-n", "2", "--collective", "allreduce", "--json", env={**alone, "SCCL_TUNE": "load"}).stdout)
        expect([row["bytes"] for row in rows if "measured_us" in row] == [64], "explain does not tell what was measured")
    # Every name that SCCL_ALGO takes; trees and synthesis need links that are named.
    call = ["perf", "all_reduce", "-n", "4", "-b", "64K", "-e", "64K", "-i", "1", "-w", "0", "--algo"]
    named = {"SCCL_TOPO": "dgx1v", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING"}
    for algorithm, served in (("trees", "trees"), ("rings", "rings"), ("synth", "synth "), ("trees/8", "trees/8"), ("recursive", "recursive"),
                              ("allreduce:rings;broadcast:ring", "rings"), ("auto", "predicted fastest")):
        result = run(*call, algorithm, env=named)
        expect_code(result, 0, f"perf --algo {algorithm}")
        expect(served in result.stdout and ("asked for" in result.stdout) == (algorithm != "auto"), f"--algo {algorithm}: {result.stdout}")
    expect("SCCL_TOPO" in run(*call, "trees").stderr, "perf --algo trees without named links does not say what is missing")
    for wrong in ("trees", "tree", "allreduce:fast"):
        expect_code(run(*call, wrong), 2, f"perf --algo {wrong}")
    expect_code(run(*call, "hybrid", env=named), 2, "perf --algo with nothing to offer")
    expect_code(run(*call, "rings", env={"SCCL_TOPO": "dgx1v:0,1,2"}), 2, "perf --algo on fewer devices than ranks")
    # Composites alone serve so many ranks.
    many = ["perf", "broadcast", "-n", "36", "-b", "64K", "-e", "64K", "-i", "1", "-w", "0", "--algo"]
    on_hosts = {"SCCL_TOPO": "9*nvpairs4"}
    result = run(*many, "levels/trees-3-deep+one-hop/32/2", env=on_hosts)
    expect_code(result, 0, "perf --algo of a composite of many ranks")
    expect("# Out of bounds values : 0 OK" in result.stdout, f"a composite of many ranks: {result.stdout}")
    expect_code(run(*many, "levels/trees-3-deep+one-hop/31/4", env=on_hosts), 2, "perf --algo with no such composite")
    for wrong in (["perf"], ["perf", "nothing"], ["perf", "all_reduce", "-n", "0"], ["perf", "all_reduce", "-b", "x"],
                  ["perf", "all_reduce", "-d", "int7"], ["perf", "all_reduce", "-o", "xor"],
                  ["perf", "all_reduce", "-b", "1M", "-e", "8"], ["perf", "all_reduce", "--no-such-option"]):
        expect_code(run(*wrong), 2, " ".join(wrong))


def test_tune():
    with tempfile.TemporaryDirectory() as folder:
        alone = {"SCCL_CACHE_DIR": folder}
        sweep = ["--collectives", "all_reduce,broadcast", "--ranks", "2,3", "-b", "64", "-e", "64K", "-f", "4", "-i", "2", "--repeats", "1"]
        result = run("tune", *sweep, "--json", env=alone)
        expect_code(result, 0, "tune")
        rows = json.loads(result.stdout)
        expect([row["configurations"] for row in rows] == [12, 12], f"tune measured something else: {rows}")
        expect(all(0 < row["test_size"] < 12 and row["correct"] <= row["test_size"] for row in rows), f"no test of what was learned: {rows}")
        loud = {"SCCL_DISPATCH": "learned", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING"}
        result = run("perf", "all_reduce", "-n", "2", "-b", "64", "-e", "64K", "-f", "1024", "-i", "2", env={**alone, **loud})
        expect_code(result, 0, "perf with what was learned")
        expect(result.stdout.count("learned by sccl tune") >= 2, "what was learned does not serve")
        result = run("perf", "all_reduce", "-n", "2", "-b", "64", "-e", "64", "-i", "2", env={"SCCL_CACHE_DIR": folder + "/none", **loud})
        expect_code(result, 0, "perf with nothing learned")
        expect("nothing was learned" in result.stdout, "that nothing was learned is not said")
        clusters = ["--topo", "dgx-a100", "--collectives", "all_gather", "--hosts", "8,16,64", "--test-hosts", "32", "-b", "1M"]
        result = run("tune", *clusters, "--json", env=alone)
        expect_code(result, 0, "tune --topo")
        row = json.loads(result.stdout)[0]
        expect(row["configurations"] == 33 and row["test_size"] == 10, f"tune --topo learned from something else: {row}")
        expect(0 < row["correct"] <= 10 and 1 <= row["loss"] <= row["worst_loss"], f"tune --topo tested nothing: {row}")
        result = run("explain", "--topo", "40*dgx-a100", "--collective", "allgather", env={**alone, "SCCL_DISPATCH": "learned"})
        expect("learned by sccl tune" in result.stdout, f"what was learned for clusters does not serve: {result.stdout}")
    expect_code(run("tune", "--topo", "nothing"), 2, "tune --topo with an unknown host")
    expect_code(run("tune", "--topo", "dgx-a100", "--devices-per-host", "9"), 2, "tune --topo with more devices than a host has")
    expect_code(run("tune", "--topo", "dgx-a100", "--hosts", "0"), 2, "tune --topo with no host")
    for wrong in (["tune", "--collectives", "nothing"], ["tune", "--ranks", "1"], ["tune", "-b", "8"], ["tune", "-b", "1M", "-e", "64"]):
        expect_code(run(*wrong), 2, " ".join(wrong))


def test_run():
    script = 'test "$WORLD_SIZE" = 3 && test -n "$MASTER_PORT" && case "$LD_PRELOAD" in *libsccl.so*) ;; *) exit 9;; esac; echo "r$RANK"'
    result = run("run", "-n", "3", "--", "sh", "-c", script)
    expect_code(result, 0, "run")
    expect(sorted(result.stdout.split()) == ["r0", "r1", "r2"], f"run printed {result.stdout!r}")
    result = run("run", "-n", "2", "--", "sh", "-c", 'test "$RANK" = 0 && exit 7; exec sleep 60')
    expect_code(result, 7, "run of a failing rank ends the others and gives its status")
    expect("rank 0" in result.stderr, "the failing rank is not named")
    expect_code(run("run", "-n", "2", "--", "/no/such/program"), 127, "run of a missing program")
    expect_code(run("run", "-n", "0", "--", "true"), 2, "run -n 0")
    expect_code(run("run", "-n", "2"), 2, "run without a program")


def test_doctor():
    for engine, wanted in (("none", "SCCL_NET"), ("ucx", "UCX"), ("auto", "")):
        result = run("doctor", "--json", env={"SCCL_NET": engine})
        expect(result.returncode in (0, 1), f"doctor ended with {result.returncode}: {result.stderr}")
        found = [entry for entry in json.loads(result.stdout) if entry["check"] == "between hosts"]
        expect(len(found) == 1 and wanted.lower() in (found[0]["text"] + found[0]["remedy"]).lower(), f"doctor with {engine}: {found}")


    # A namespace has a setting of its own.
    if os.geteuid() != 0:
        return
    setting = "/proc/sys/net/ipv4/tcp_congestion_control"
    for algorithm in ("cubic", "bbr"):
        script = f"ip link set lo up; echo {algorithm} > {setting} || exit 99; exec {sccl} doctor --json"
        result = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, timeout=60)
        if result.returncode == 99:  # this kernel lacks it
            continue
        found = [entry for entry in json.loads(result.stdout) if entry["check"] == "TCP"]
        expect(len(found) == 1 and algorithm in found[0]["text"] and (found[0]["state"] == "warn") == (algorithm == "bbr"),
               f"doctor with {algorithm}: {found}")


def test_perf_hosts():
    for wrong in (["--hosts", "3"], ["--delay", "1ms"], ["--hosts", "2", "--delay", "5"], ["--hosts", "2", "--rate", "fast"],
                  ["--hosts", "2", "--loss", "100%"], ["--hosts", "2", "--threads"]):
        expect_code(run("perf", "all_reduce", "-n", "2", *wrong), 2, f"perf {wrong}")
    small = ["perf", "all_reduce", "-n", "4", "--hosts", "2", "-b", "8", "-e", "64K", "-f", "64", "-i", "2", "-w", "1"]
    if os.geteuid() != 0:
        result = run(*small)
        expect(result.returncode != 0 and "root" in result.stderr, f"perf --hosts without root said {result.stderr}")
        return
    for shape in ([], ["--rate", "1gbit"], ["--delay", "100us", "--loss", "0.1%", "--rate", "1gbit"]):
        result = run(*small, *shape)
        expect_code(result, 0, f"perf --hosts 2 {shape}")
        rows = [line.split("|") for line in result.stdout.splitlines() if line and not line.startswith("#")]
        expect(len(rows) == 3 and all(row[1].split()[3] == "0" for row in rows), f"perf --hosts 2 {shape}: {result.stdout}")
    result = run(*small, env={"NCCL_DEBUG": "INFO"})
    expect("between hosts: " in result.stdout + result.stderr, "perf --hosts: no engine is named")
    # What the driver of a link between namespaces says is no speed: the asked one counts, else the usual one.
    for shape, speed in (([], "10"), (["--rate", "500mbit"], "0.5")):
        result = run(*small, *shape, env={"NCCL_DEBUG": "INFO"})
        expect(f"the speed of eth0 is unknown, taken as {speed} Gbit/s" in result.stdout + result.stderr,
               f"perf --hosts 2 {shape} takes another speed")


# Called as ssh is, this starts the command here and notes the host.
SHELL = """#!/bin/sh
host=$1
shift
[ "$host" = unreachable ] && exit 255
exec env AT=$host sh -c "$*"
"""


def ends(process):
    for _ in range(100):
        try:
            with open(f"/proc/{process}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):  # ended before the opening, or between it and the reading
            return True
        time.sleep(0.1)
    return False


def test_run_on_hosts():
    with tempfile.TemporaryDirectory() as folder:
        shell = os.path.join(folder, "shell")
        with open(shell, "w") as file:
            file.write(SHELL)
        os.chmod(shell, 0o755)
        start = ["run", "--rsh", shell, "--hosts"]
        script = 'echo "$AT $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR $1 $SCCL_STATUS"'
        result = run(*start, "a:2,b", "--", "sh", "-c", script, "sh", "it's", env={"SCCL_STATUS": "1"})
        expect_code(result, 0, "run --hosts")
        expected = ["a 0/3 0/2 0 a it's 1", "a 1/3 1/2 0 a it's 1", "b 2/3 0/1 1 a it's 1"]
        expect(sorted(result.stdout.split("\n")[:-1]) == expected, f"run --hosts said {result.stdout}")
        failing = 'test "$RANK" = 2 && exit 9; exec sleep 60'
        result = run(*start, "a:2,b:2", "--", "sh", "-c", failing)
        expect_code(result, 9, "run --hosts of a rank that fails")
        expect("rank 2 ended with status 9" in result.stderr, f"the rank is not named: {result.stderr}")
        result = run(*start, "a:2,unreachable:2", "--", "sleep", "60")
        expect_code(result, 255, "run on a host that is not reached")
        expect("host unreachable ended with status 255" in result.stderr, f"the host is not named: {result.stderr}")
        # All that a rank's host knows of the command is the connection.
        job = subprocess.Popen([sccl, *start, "a:2,b", "--", "sh", "-c", "echo $$; exec sleep 60"], stdout=subprocess.PIPE, text=True)
        ranks = [int(job.stdout.readline()) for _ in range(3)]
        job.kill()
        job.wait()
        left = [rank for rank in ranks if not ends(rank)]
        expect(not left, f"the command was killed, and ranks {left} go on")
        for wrong in "a:x", "a:0", "a:", ",a", "a,", "-oProxyCommand=x", "[::1", "":
            expect_code(run(*start, wrong, "--", "true"), 2, f"run --hosts '{wrong}'")
        expect_code(run(*start, "a:2", "-n", "3", "--", "true"), 2, "run -n against --hosts")


def test_run_started():
    script = 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE"'
    starters = [
        {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"},
        {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
         "OMPI_COMM_WORLD_LOCAL_SIZE": "4"},
        {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"},
        {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1", "SLURM_NODEID": "1",
         "SLURM_STEP_TASKS_PER_NODE": "4(x2)"},
    ]
    for variables in starters:
        result = run("run", "--", "sh", "-c", script, env=variables)
        expect_code(result, 0, f"run with {variables}")
        expect(result.stdout == "5/8 1/4\n", f"run with {variables} said {result.stdout}")
    expect_code(run("run", "--", "true"), 2, "run without ranks")


def good_schedule():
    links = [{"src": a, "dst": b} for a in range(2) for b in range(2) if a != b]
    return {"version": 1, "collective": "allgather", "ranks": 2, "root": 0, "chunks": 2, "chunks_per_rank": 1, "steps": 1,
            "rounds": [1], "topology": {"name": "pair", "ranks": 2, "switches": 0, "links": links, "shared": []},
            "sends": [[0, 0, 1, 0, "copy"], [1, 1, 0, 0, "copy"]]}


def verify_text(text):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text)
        file.flush()
        return run("verify", file.name)


def test_verify():
    good = good_schedule()
    expect_code(verify_text(json.dumps(good)), 0, "a right schedule")
    wrong = good_schedule()
    wrong["sends"].pop()
    result = verify_text(json.dumps(wrong))
    expect_code(result, 1, "a schedule that misses a send")
    expect("rank 0" in result.stderr, f"what is wrong is not named: {result.stderr}")
    expect_code(verify_text(json.dumps(good)[:60]), 2, "a truncated file")
    expect_code(verify_text(json.dumps({**good, "chunks": 10**9})), 2, "a hostile file")
    expect_code(verify_text("<algo/>"), 2, "XML")
    expect_code(run("verify", "/no/such/file"), 2, "a missing file")


def ring_xml(ranks):
    """AllReduce over a ring, as MSCCL's tools write it."""
    text = f'<algo name="ring" proto="Simple" nchannels="1" nchunksperloop="{ranks}" ngpus="{ranks}" coll="allreduce" inplace="1">\n'
    for rank in range(ranks):
        chunks = [(rank - behind) % ranks for behind in range(ranks)]
        kinds = ["s"] + ["rrs"] * (ranks - 2) + ["rrcs"] + ["rcs"] * (ranks - 2) + ["r"]
        text += f'<gpu id="{rank}" i_chunks="{ranks}" o_chunks="{ranks}" s_chunks="0">\n<tb id="0" send="{(rank + 1) % ranks}" '
        text += f'recv="{(rank - 1) % ranks}" chan="0">\n'
        for index, (kind, chunk) in enumerate(zip(kinds, (chunks + chunks)[:len(kinds)])):
            text += f'<step s="{index}" type="{kind}" srcbuf="i" srcoff="{chunk}" dstbuf="i" dstoff="{chunk}" cnt="1" depid="-1" '
            text += 'deps="-1" hasdep="0"/>\n'
        text += "</tb>\n</gpu>\n"
    return text + "</algo>\n"


def test_schedules():
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        with open(path("ring.xml"), "w") as file:
            file.write(ring_xml(4))
        expect_code(run("verify", path("ring.xml")), 0, "verify of MSCCL XML")
        with open(path("wrong.xml"), "w") as file:
            file.write(ring_xml(4).replace('type="rrcs"', 'type="rcs"', 1))
        result = run("verify", path("wrong.xml"))
        expect_code(result, 1, "verify of a wrong algorithm in MSCCL XML")
        expect("line" in result.stderr and "<gpu" in result.stderr, f"line and element are not named: {result.stderr}")
        with open(path("broken.xml"), "w") as file:
            file.write(ring_xml(4).replace('chan="0"', 'chan="9"', 1))
        result = run("verify", path("broken.xml"))
        expect_code(result, 2, "verify of MSCCL XML that breaks a rule")
        expect("line 3, <tb>" in result.stderr, f"line and element are not named: {result.stderr}")
        # There and back again, through both formats.
        expect_code(run("export", "--schedule", path("ring.xml"), "--format", "json", "--out", path("ring.json")), 0, "export json")
        expect_code(run("export", "--schedule", path("ring.json"), "--format", "msccl-xml", "--out", path("back.xml")), 0, "export xml")
        expect_code(run("verify", path("back.xml")), 0, "verify of what was exported")
        for machine, size in (("2*dgx1v", "1M"), ("8*pcie4", "16M")):
            # A rank that has a chunk gets it again; every send has a step of its own.
            result = run("simulate", "--topo", machine, "--collective", "broadcast", "--bytes", size, "--out", path("planned.json"))
            expect_code(result, 0, f"simulate of a Broadcast on {machine}")
            expect_code(run("verify", path("planned.json")), 0, f"verify of a Broadcast on {machine}")
            if machine == "2*dgx1v":
                expect_code(run("export", "--schedule", path("planned.json"), "--format", "msccl-xml", "--out", path("planned.xml")), 0,
                            f"export of a Broadcast on {machine}")
                expect_code(run("verify", path("planned.xml")), 0, f"verify of MSCCL XML of a Broadcast on {machine}")
        expect_code(run("export", "--schedule", path("ring.json"), "--format", "svg", "--out", path("ring.svg")), 0, "export svg")
        picture = xml_tree.parse(path("ring.svg")).getroot()
        words = [element.text or "" for element in picture.iter("{http://www.w3.org/2000/svg}text")]
        expect(sum(word.startswith("step ") for word in words) == 6, "the picture has not one panel a step")
        expect_code(run("export", "--schedule", path("wrong.xml"), "--format", "json"), 2, "export of a wrong file")
        expect_code(run("export", "--schedule", path("ring.json"), "--format", "pdf"), 2, "export to an unknown format")
        # Four ranks of 1 MiB in 4 chunks: 6 steps of 1.5 us and a quarter at 25 GB/s.
        result = run("simulate", "--schedule", path("ring.xml"), "--bytes", "1M", "--slice", "0", "--json")
        expect_code(result, 0, "simulate a file")
        expect(abs(json.loads(result.stdout)["time_us"] - 6 * (1.5 + (1 << 20) / 4 / 25e3)) < 1e-3, result.stdout)
        # Sends that are out of range are told on another machine, too.
        with open(path("ring.json")) as file:
            broken = json.load(file)
        broken["sends"][0][2] = -1 << 31
        with open(path("broken.json"), "w") as file:
            json.dump(broken, file)
        result = run("simulate", "--schedule", path("broken.json"), "--topo", "host:4", "--bytes", "1M")
        expect_code(result, 2, "simulate a file with a send to no rank")
        expect("out of range" in result.stderr, result.stderr)


def test_simulate():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "gantt.svg")
        call = ["--topo", "dgx-a100", "--collective", "allgather", "--bytes", "1M"]
        result = run("simulate", *call, "--algo", "ring", "--svg", path, "--timeline", "--json")
        expect_code(result, 0, "simulate")
        answer = json.loads(result.stdout)
        expect(answer["steps"] == 7 and answer["rounds"] == 7, "steps and rounds of a ring of 8")
        expect(len(answer["timeline"]) == 2 * answer["slices"] and len(answer["links"]) == 16, "timeline or links")
        expect(all(entry["end_us"] <= answer["time_us"] for entry in answer["timeline"]), "a transfer ends after the call")
        expect(xml_tree.parse(path).getroot().tag.endswith("svg"), "no picture")
        planned = os.path.join(folder, "planned.json")
        expect_code(run("simulate", *call, "--algo", "recursive", "--out", planned), 0, "simulate --out")
        expect_code(run("verify", planned), 0, "verify of a planned schedule")
        stepwise = json.loads(run("simulate", *call, "--algo", "ring", "--stepwise", "--json").stdout)
        expect(abs(stepwise["time_us"] - stepwise["closed_form_us"]) < 1e-6 * stepwise["time_us"], "stepwise is not the closed form")
        expect(run("simulate", *call, "--algo", "ring").stdout == run("simulate", *call, "--algo", "ring").stdout, "not deterministic")
        for machine, collective, size in (("4*dgx1v", "broadcast", "4M"), ("2*dgx1v", "broadcast", "1M"), ("2*dgx1v", "alltoall", "1M"), ("dgx1v", "allreduce", "16M")):
            same = ["--topo", machine, "--collective", collective, "--bytes", size, "--json"]
            best = json.loads(run("plan", *same).stdout)["candidates"][0]
            seen = json.loads(run("simulate", *same).stdout)
            expect((seen["time_us"], seen["slice_bytes"]) == (best["time_us"], best.get("slice_bytes", 131072)),
                   f"{collective} of {size} on {machine} is planned {best} and simulated {seen['time_us']} us in slices of {seen['slice_bytes']}")
        plan = json.loads(run("plan", *call, "--json").stdout)
        times = [candidate["time_us"] for candidate in plan["candidates"]]
        expect(times == sorted(times) and plan["chosen"] == plan["candidates"][0]["algo"], "the plan's order")
        expect_code(run("plan", *call, "--devices", "0,3,5"), 0, "plan for a part of a machine")
        cores = os.path.join(folder, "cores.json")
        figures = {"cores": 2, "alpha_us": 1, "op_us": 0, "switch_us": 1, "read_own_ns": 0, "write_own_ns": 0, "read_slot_ns": 1,
                   "write_slot_ns": 1}
        with open(cores, "w") as file:
            json.dump(figures, file)
        pair = ["simulate", "--topo", "host:2", "--collective", "allgather", "--bytes", "100K", "--algo", "ring", "--json", "--cores"]
        answer = json.loads(run(*pair, cores).stdout)
        expect(abs(answer["time_us"] - (1 + 2 * 102.4)) < 1e-6 and answer["switches"] == 0, f"a slot is filled and emptied: {answer}")
        broken = os.path.join(folder, "broken.json")
        with open(broken, "w") as file:
            json.dump({**figures, "op_us": "much"}, file)
        result = run(*pair, broken)
        expect_code(result, 2, "simulate with broken figures")
        expect("'op_us'" in result.stderr, result.stderr)
        for wrong in (["plan"], ["plan", "--topo", "nothing", *call[2:]], ["plan", *call[:2], "--collective", "x", "--bytes", "8"],
                      ["simulate", *call[:4]], ["simulate", *call, "--algo", "x"], ["simulate", *call, "--slots", "-1"],
                      ["simulate", *call, "--root", "8"], ["simulate", "--schedule", "/no/such/file", "--bytes", "8"],
                      ["simulate", *call, "--svg", "/no/such/folder/picture.svg"],
                      ["simulate", "--topo", "dgx1v", "--collective", "allgather", "--bytes", "1M", "--algo", "one-hop"]):
            expect_code(run(*wrong), 2, " ".join(wrong))


def test_tables():
    names = [entry["name"] for entry in json.loads(run("env", "--json").stdout)]
    expect(len(names) == len(set(names)) and "SCCL_ALGO" in names and "NCCL_DEBUG" in names, "the table is not complete")
    with open(os.path.join(source, "docs", "env.md")) as file:
        expect(file.read() == run("env", "--markdown").stdout, "docs/env.md is not what `sccl env --markdown` prints")
    checks = json.loads(run("doctor", "--json").stdout)
    expect(all({"check", "state", "text", "remedy"} <= set(check) for check in checks), "doctor's JSON lacks a field")
    expect_code(run("no-such-verb"), 2, "an unknown verb")
    expect("the nearest one is doctor" in run("docter").stderr, "a mistyped verb's nearest one is not named")
    expect(re.fullmatch(r"sccl \d+\.\d+\.\d+ \(libsccl, NCCL's API 2\.32\.3\)\n", run("--version").stdout),
           "sccl --version does not tell both versions")
    expect_code(run("export"), 2, "a verb of a later version")
    expect_code(run("--help"), 0, "--help")
    expect_code(run("perf", "--help"), 0, "perf --help")


def test_topo():
    expected = {"dgx1p": 14, "dgx1v": 46}
    for name, count in expected.items():
        answer = json.loads(run("topo", "--topo", name, "--classes", "--json").stdout)
        expect(answer["count"] == count and len(answer["classes"]) == count, f"{answer['count']} classes of {name}")
    with tempfile.TemporaryDirectory() as folder:
        xml, text, picture = (os.path.join(folder, name) for name in ("m.xml", "m.json", "m.svg"))
        result = run("topo", "--topo", "dgx1v", "--devices", "3,0,1", "--dump", xml, "--svg", picture)
        expect_code(result, 0, "topo --dump --svg")
        expect("NVL2" in result.stdout and "assumed" in result.stdout and "0 (3)" in result.stdout, f"topo printed {result.stdout}")
        whole = json.loads(run("topo", "--topo", "dgx1v", "--devices", "3,0,1", "--json").stdout)
        again = json.loads(run("topo", "--topo", xml, "--json").stdout)
        expect(whole["devices"] == again["devices"] == [3, 0, 1], f"devices {whole['devices']} and {again['devices']}")
        expect(whole["diameter"] == again["diameter"] == 1, f"diameter {whole['diameter']}")
        expect(whole["paths"] == again["paths"] == [["-", "NVL2", "NVL1"], ["NVL2", "-", "NVL1"], ["NVL1", "NVL1", "-"]],
               f"paths {whole['paths']}")
        root = xml_tree.parse(picture).getroot()
        nodes = [one for one in root.iter() if one.get("class") == "node"]
        expect(len(nodes) == 3, f"{len(nodes)} nodes in the picture")
        # One line for each lane, between the circles that it joins: two lanes from 0 to 1 (devices 3 and 0), one to 2.
        circle = [next(part for part in node.iter() if part.get("class") == "rank") for node in nodes]
        place = [(float(one.get("cx")), float(one.get("cy"))) for one in circle]
        near = lambda x, y: next((i for i, (cx, cy) in enumerate(place) if math.hypot(cx - x, cy - y) < 10), None)
        lanes = [tuple(sorted((near(float(one.get("x1")), float(one.get("y1"))), near(float(one.get("x2")), float(one.get("y2"))))))
                 for one in root.iter() if one.get("class") == "line nvlink" and one.get("style")]
        expect(sorted(lanes) == [(0, 1), (0, 1), (0, 2), (1, 2)], f"the picture's lines join {lanes}")
        with open(text, "w") as file:
            file.write(json.dumps(whole))
        expect(json.loads(run("topo", "--topo", text, "--json").stdout) == whole, "--json is no topology file")
        expect_code(run("topo", "--topo", "z52", "--dump", xml), 2, "what XML cannot hold")
        expect_code(run("topo", "--topo", "z52", "--dump", os.path.join(folder, "z.json")), 0, "--dump to JSON")
        expect_code(run("topo", "--topo", "dgx1v", "--svg", "/no/such/folder/x.svg"), 2, "a picture that cannot be written")
    result = run("topo", "--topo", "2*dgx1v", "--nic-gbps", "200", "--json")
    expect(max(link["gbytes_per_s"] for link in json.loads(result.stdout)["links"] if link["class"] == "net") == 25, "--nic-gbps")
    for verb in (["topo"], ["plan", "--collective", "allreduce", "--bytes", "1M"]):
        result = run(*verb, "--topo", "dgx1v", "--nic-gbps", "200")
        expect_code(result, 2, f"{verb[0]} --nic-gbps without NICs")
        expect("leave out --nic-gbps" in result.stderr and "'dgx1v'" in result.stderr, f"--nic-gbps without NICs: {result.stderr}")
    with tempfile.TemporaryDirectory() as folder:
        schedule = os.path.join(folder, "ring.json")
        run("simulate", "--topo", "dgx1v", "--collective", "allreduce", "--bytes", "1M", "--out", schedule)
        for verb in (["explain"], ["simulate", "--schedule", schedule, "--bytes", "1M"]):
            for option in (["--nic-gbps", "200"], ["--devices", "0,1"]):
                result = run(*verb, *option)
                expect_code(result, 2, f"{verb[0]} {option[0]} without --topo")
                expect(f"leave out {option[0]}" in result.stderr, f"{option[0]} without --topo: {result.stderr}")
    with tempfile.TemporaryDirectory() as cache:
        places = {"XDG_CACHE_HOME": cache}
        assumed, measured, kept = (run("topo", *extra, env=places) for extra in ([], ["--measure"], []))
        expect_code(measured, 0, "topo --measure")
        expect("assumed" in assumed.stdout, f"topo of this machine printed {assumed.stdout}")
        # A machine with one core has no links to measure.
        expect("measured" in measured.stdout or os.cpu_count() == 1, f"topo --measure printed {measured.stdout}")
        expect(kept.stdout == measured.stdout, "the measurement is not kept")
    expect_code(run("topo", "--topo", "dgx1v", "--measure"), 2, "measuring another machine")
    ranked = json.loads(run("topo", "--topo", "dgx1v", "--best", "4", "--free", "0,1,2,3,4,7", "--json").stdout)["best"]
    expect(ranked[0]["devices"] == [0, 1, 2, 3] and sum(one["ways"] for one in ranked) == 15, f"topo --best gave {ranked}")
    table = run("topo", "--topo", "4*dgx1v", "--best", "8", "--collective", "allgather").stdout.splitlines()
    expect(table[1].split()[1:] == ["1", "4", "0,1,2,3,4,5,6,7"], f"topo --best printed {table[:2]}")
    for wrong in (["--best", "9"], ["--best", "0"], ["--best", "2", "--free", "0,0,1"], ["--best", "2", "--collective", "gather"]):
        expect_code(run("topo", "--topo", "dgx1v", *wrong), 2, f"topo {wrong}")
    large = run("topo", "--topo", "host:400")
    expect_code(large, 0, "topo of 400 ranks")
    expect("automorphisms: more than 2000" in large.stdout and "R/C at least 1;" in large.stdout, f"topo printed {large.stdout[:400]}")
    for wrong in (["--topo", "dgx9"], ["--topo", "dgx1v", "--devices", "9"], ["--topo", "dgx1v", "--devices", "0,0"],
                  ["--topo", "/no/such.xml"], ["--no-such-option"]):
        expect_code(run("topo", *wrong), 2, f"topo {wrong}")


def test_explain():
    rows = json.loads(run("explain", "--topo", "dgx1v", "--collective", "broadcast", "--json").stdout)
    expect([row["bytes"] for row in rows] == [8 * 8**i for i in range(8)], "sizes of explain")
    for row in rows:
        expect(row["predicted_us"] <= row["second"]["predicted_us"], f"the second is faster: {row}")
    expect(rows[0]["schedule"] != rows[-1]["schedule"], "one schedule serves all sizes of a broadcast on a DGX-1V")
    table = run("explain", "-n", "4", "--collective", "allreduce")
    expect_code(table, 0, "explain")
    expect("thresholds measured" in table.stdout, f"explain printed {table.stdout}")
    for wrong in (["--topo", "dgx9"], ["--collective", "nothing"], ["--topo", "dgx1v", "--root", "9"]):
        expect_code(run("explain", *wrong), 2, f"explain {wrong}")


{"perf": test_perf, "doctor": test_doctor, "perf_hosts": test_perf_hosts, "arrival": test_arrival, "tune": test_tune, "explain": test_explain, "run": test_run, "run_on_hosts": test_run_on_hosts, "run_started": test_run_started,
 "verify": test_verify, "tables": test_tables,
 "topo": test_topo, "schedules": test_schedules, "simulate": test_simulate}[group]()
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
