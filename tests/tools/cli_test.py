"""The sccl command: exit codes, tables, files. Usage: cli_test.py SCCL GROUP SOURCE_DIR"""
import csv
import json
import os
import subprocess
import sys
import tempfile
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
    for wrong in (["perf"], ["perf", "nothing"], ["perf", "all_reduce", "-n", "0"], ["perf", "all_reduce", "-b", "x"],
                  ["perf", "all_reduce", "-d", "int7"], ["perf", "all_reduce", "-o", "xor"],
                  ["perf", "all_reduce", "-b", "1M", "-e", "8"], ["perf", "all_reduce", "--no-such-option"]):
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


def test_tables():
    names = [entry["name"] for entry in json.loads(run("env", "--json").stdout)]
    expect(len(names) == len(set(names)) and "SCCL_ALGO" in names and "NCCL_DEBUG" in names, "the table is not complete")
    with open(os.path.join(source, "docs", "env.md")) as file:
        expect(file.read() == run("env", "--markdown").stdout, "docs/env.md is not what `sccl env --markdown` prints")
    checks = json.loads(run("doctor", "--json").stdout)
    expect(all({"check", "state", "text", "remedy"} <= set(check) for check in checks), "doctor's JSON lacks a field")
    expect_code(run("no-such-verb"), 2, "an unknown verb")
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
        with open(text, "w") as file:
            file.write(json.dumps(whole))
        expect(json.loads(run("topo", "--topo", text, "--json").stdout) == whole, "--json is no topology file")
        expect_code(run("topo", "--topo", "z52", "--dump", xml), 2, "what XML cannot hold")
        expect_code(run("topo", "--topo", "z52", "--dump", os.path.join(folder, "z.json")), 0, "--dump to JSON")
        expect_code(run("topo", "--topo", "dgx1v", "--svg", "/no/such/folder/x.svg"), 2, "a picture that cannot be written")
    result = run("topo", "--topo", "2*dgx1v", "--nic-gbps", "200", "--json")
    expect(max(link["gbytes_per_s"] for link in json.loads(result.stdout)["links"] if link["class"] == "net") == 25, "--nic-gbps")
    with tempfile.TemporaryDirectory() as cache:
        places = {"XDG_CACHE_HOME": cache}
        assumed, measured, kept = (run("topo", *extra, env=places) for extra in ([], ["--measure"], []))
        expect_code(measured, 0, "topo --measure")
        expect("assumed" in assumed.stdout, f"topo of this machine printed {assumed.stdout}")
        # A machine with one core has no links to measure.
        expect("measured" in measured.stdout or os.cpu_count() == 1, f"topo --measure printed {measured.stdout}")
        expect(kept.stdout == measured.stdout, "the measurement is not kept")
    expect_code(run("topo", "--topo", "dgx1v", "--measure"), 2, "measuring another machine")
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


{"perf": test_perf, "explain": test_explain, "run": test_run, "verify": test_verify, "tables": test_tables, "topo": test_topo}[group]()
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
