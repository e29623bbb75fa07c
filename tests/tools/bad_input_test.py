"""What the command says of input that it cannot use: one line that names it, and a status that is not 0.
Usage: bad_input_test.py SCCL"""
import json
import os
import subprocess
import sys
import tempfile

sccl = sys.argv[1]
failures = []
MACHINE = ["simulate", "--topo", "dgx1v", "--collective", "allreduce", "--bytes", "1M"]


def expect(condition, what):
    if not condition:
        failures.append(what)


def run(*arguments, **options):
    if "stdout" not in options and "preexec_fn" not in options:
        options["stdout"] = subprocess.PIPE
    return subprocess.run([sccl, *arguments], stderr=subprocess.PIPE, text=True, timeout=100, **options)


def expect_refusal(arguments, *parts):
    result = run(*arguments)
    lines = result.stderr.replace("Run with --help for more information.\n", "").splitlines()
    expect(result.returncode == 2 and len(lines) == 1 and all(part in result.stderr for part in parts),
           f"{arguments}: exit {result.returncode}: {result.stderr[:400]}")


def test_files(folder):
    """Every reader of a schedule names the file, and why it cannot be used."""
    empty, absent = os.path.join(folder, "empty"), os.path.join(folder, "absent")
    open(empty, "w").close()
    for path, why in ((folder, "Is a directory"), (absent, "No such file or directory"), (empty, "not JSON"), ("/proc/self/mem", "cannot be read")):
        expect_refusal(["verify", path], path, why)
        expect(run("verify", path).stderr.count(path) == 1, f"verify names {path} twice")
        expect_refusal(["export", "--schedule", path, "--format", "json"], path, why)
        expect_refusal(["simulate", "--schedule", path, "--bytes", "1M"], path, why)
    expect_refusal(["verify", ""], "'' cannot be read")
    expect_refusal([*MACHINE, "--cores", folder], "Is a directory")
    expect_refusal([*MACHINE, "--out", folder], folder, "Is a directory")
    expect_refusal(["kernels", "--arch", "sm_90", "--out", os.path.join(empty, "kernels")], "no folder that can be written")


def test_numbers():
    for option, value in (("--slots", "-1"), ("--network-slots", "-1"), ("--reduce-gbytes-per-s", "-1"),
                          ("--reduce-gbytes-per-s", "nan"), ("--reduce-gbytes-per-s", "inf"), ("--slots", "99999999999")):
        expect_refusal([*MACHINE, option, value], option)
    expect_refusal(["synth", "--topo", "dgx1v", "--collective", "no", "--chunks", "1", "--steps", "1", "--rounds", "1"], "'no'", "allgather")


def test_numbers_of_every_verb():
    """An empty text is no 0, and what is not finite is no number, whatever the verb."""
    perf = ["perf", "all_reduce", "-n", "2", "-e", "64"]
    tune = ["tune", "--collectives", "all_reduce", "-n", "2", "-b", "64", "-e", "64"]
    synth = ["synth", "--topo", "dgx1v", "--collective", "allgather", "--chunks", "1", "--steps", "2", "--rounds", "2"]
    topo = ["topo", "--topo", "2*dgx1v"]
    for verb, option in ((perf, "-f"), (tune, "-f"), (synth, "--budget"), (topo, "--nic-gbps"),
                         (["pack", "--topo", "dgx1v", "--collective", "broadcast", "--json"], "--epsilon")):
        for value in ("nan", "-nan", "inf", "-inf", "1e999", "-1", ""):
            expect_refusal([*verb, option, value])
    expect_refusal([*perf, "-f", "nan"], "-f: 'nan' is no number")
    whole = ((perf, "-w"), (perf, "--hosts"), (tune, "--seed"), (synth, "--root"), (synth, "--devices"), (topo, "--devices"),
             (["explain"], "-n"), (["explain"], "--root"), (["topo", "--topo", "dgx1v", "--classes"], "--smallest"),
             (["plan", "--topo", "dgx1v", "--collective", "broadcast", "--bytes", "1M"], "--root"))
    for verb, option in whole:
        for value in ("nan", "1e999", "", "99999999999999999999", "3x"):
            expect_refusal([*verb, option, value])
    for value in ("-1", "8"):
        expect_refusal(["explain", "-n", "8", "--root", value], "--root", "0 to 7")
    expect_refusal([*perf, "--arrival", "one=4294967297:1ms"], "4294967297", "0 to 1")
    for option, value in (("--arrival", ""), ("--delay", ""), ("--rate", ""), ("--loss", "")):
        expect_refusal([*perf, option, value], "''")
    for value in ("nan", "inf", "1e999", "-1", "", "0", "0.5", "1e-320"):
        expect_refusal(["plan", "--topo", "dgx1v", "--collective", "allreduce", "--bytes", value], f"'{value}'")
    expect_refusal(["pack", "--topo", "dgx1v", "--collective", "broadcast", "--bytes", ""], "''")
    expect_refusal(["status", ""])


def test_decimal():
    """A number is decimal, with a unit or without: 0x10 is none, and 010 is not 8."""
    for option in ("--slots", "--root", "--devices"):
        for value in ("0x2", "0X2", "010"):
            expect_refusal([*MACHINE, option, value], option, f"'{value}'")
    expect_refusal([*MACHINE, "--reduce-gbytes-per-s", "0x10"], "'0x10'", "decimal")
    for value in ("0x10", "0x10K", "0x1p4"):
        expect_refusal([*MACHINE[:-1], value], f"'{value}'")
    expect_refusal(["perf", "all_reduce", "-n", "2", "-e", "64", "--arrival", "mif=0x10"], "'0x10'")


def test_control_characters(folder):
    """Terminals interpret them, and whoever wrote the file chose them."""
    machine = {"name": "red\x1b[31m", "ranks": 2, "links": [{"src": 0, "dst": 1, "gbytes_per_s": 1}, {"src": 1, "dst": 0, "gbytes_per_s": 1}]}
    broken = {**machine, "links": [{"src": 0, "dst": 1, "class": "\x1b[2J"}]}
    xml = '<system version="1"><cpu numaid="&#27;[31m" affinity="1" arch="&#27;[2J" vendor="v"/></system>'
    texts = [json.dumps(machine), json.dumps(broken), json.dumps({**machine, "ranks": 0}), xml,
             '<system version="&#27;[31m"/>', json.dumps({"collective": "\x1b[31m"})]
    path = os.path.join(folder, "machine")
    for text in texts:
        with open(path, "w") as file:
            file.write(text)
        for arguments in (["topo", "--topo", path], ["plan", "--topo", path, "--collective", "allreduce", "--bytes", "1M"], ["verify", path]):
            result = run(*arguments)
            expect("\x1b" not in result.stdout + result.stderr, f"{arguments[0]} of {text} printed {result.stdout!r} and {result.stderr!r}")
            if text == texts[0] and arguments[0] == "plan":
                expect("red\\x1b[31m" in result.stdout, f"the name is not told: {result.stdout}")


def test_output():
    """An answer that cannot be printed is no success."""
    for arguments in (["--help"], ["verify", "--help"], ["env"], ["topo", "--topo", "dgx1v"], MACHINE):
        with open("/dev/full", "w") as full:
            result = run(*arguments, stdout=full)
        expect(result.returncode == 2 and "No space left on device" in result.stderr, f"{arguments} to a full disk: {result}")
        result = run(*arguments, preexec_fn=lambda: os.close(1))
        expect(result.returncode == 2 and "Bad file descriptor" in result.stderr, f"{arguments} to a closed descriptor: {result}")


with tempfile.TemporaryDirectory() as temporary:
    test_files(temporary)
    test_control_characters(temporary)
test_numbers()
test_numbers_of_every_verb()
test_decimal()
test_output()
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
