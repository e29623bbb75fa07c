"""What the command says of input that it cannot use: one line that names it, and a status that is not 0.
Usage: bad_input_test.py SCCL"""
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
test_numbers()
test_output()
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
