#!/usr/bin/env python3
"""Applies the mutants of tests/mutants/table.txt one by one, and tells which of them no test notices.

  mutants.py --check          every mutant still applies: its text stands exactly once in its file (a structure test)
  mutants.py [--only REGEX]   builds and tests each in a copy of the commit (git worktree in --tree), and writes what
                              became of it to --results (JSON lines); mutants that stand there already are not repeated
  mutants.py --report FILE    writes the results as Markdown

An entry of the table is a block of lines `key text`:

  floor   of the source
  what    the mutation does, for people
  file    name of the source, or the end of its path; it may move
  from    a part of one line that stands nowhere else in the file
  to      what it becomes
  build   targets whose tests look at it
  run     regular expression of these tests' names
  excuse  why a mutant that survives may (none: it must be killed)

Where no file of that name has the text, any one source that has it serves: files are renamed more often than lines.
Each mutant is first tried on the tests of `run`. With --rest what survived them is tried on all tests.
"""
import argparse
import fcntl
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests/mutants/table.txt"
KEYS = ("floor", "what", "file", "from", "to", "build", "run", "excuse")
MOST_SURVIVORS_PERCENT = 5
SECONDS_A_TEST = 60


def read_table():
    mutants, entry = [], {}
    for number, line in enumerate([*TABLE.read_text().splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if not line.strip():
            if entry:
                missing = [key for key in KEYS[:-1] if key not in entry]
                if missing:
                    sys.exit(f"{TABLE}, before line {number}: {', '.join(missing)} missing")
                mutants.append(entry)
            entry = {}
            continue
        key, _, text = line.partition(" ")
        if key not in KEYS or key in entry:
            sys.exit(f"{TABLE}, line {number}: '{key}' is no key, or stands twice")
        entry[key] = text.strip()
    names = [name_of(mutant) for mutant in mutants]
    for name in names:
        if names.count(name) > 1:
            sys.exit(f"{TABLE}: two mutants are called '{name}'")
    return mutants


def name_of(mutant):
    return f"{mutant['floor']}: {mutant['what']}"


def sources(root):
    return [path for path in sorted((root / "src").rglob("*")) if path.suffix in {".h", ".cc"}]


def place_of(mutant, files):
    """The one file in which the mutant's text stands once; a text that says why there is none."""
    named = [path for path in files if path.as_posix().endswith("/" + mutant["file"])]
    having = [path for path in named if path.read_text().count(mutant["from"]) > 0]
    if not having:
        having = [path for path in files if path.read_text().count(mutant["from"]) > 0]
    if len(having) != 1:
        return None, f"stands in {len(having)} files ({mutant['file']}): correct the table"
    if having[0].read_text().count(mutant["from"]) != 1:
        return None, f"stands more than once in {having[0]}: give more of the line"
    if mutant["from"] == mutant["to"]:
        return None, "changes nothing"
    return having[0], ""


def check(mutants, root):
    files, bad = sources(root), 0
    for mutant in mutants:
        _, problem = place_of(mutant, files)
        if problem:
            bad += 1
            print(f"{name_of(mutant)}: '{mutant['from']}' {problem}")
    print(f"{len(mutants) - bad} of {len(mutants)} mutants apply")
    return 1 if bad else 0


class Tree:
    """A copy of the commit with a build folder of its own. It is built as the preset release is, so that a compiler cache knows
    what is not mutated."""

    def __init__(self, path):
        self.path = path
        self.build = path / "build/release"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.lock = open(f"{path}.lock", "w")  # held to the end of this process: two runs would see each other's mutants
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"{path} is in use by another run: wait for it, or give another --tree")
        if not path.exists():
            self.must("git", "-C", str(ROOT), "worktree", "add", "--detach", str(path), "HEAD")
        self.must("git", "-C", str(path), "checkout", "-q", "-f", "--detach", self.commit())
        self.must("cmake", "-S", str(path), "-B", str(self.build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release")

    @staticmethod
    def commit():
        return subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()

    @staticmethod
    def must(*command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")

    def make(self, targets):
        done = subprocess.run(["cmake", "--build", str(self.build), "-j", "2", "--target", *targets], capture_output=True, text=True)
        return done.returncode == 0, done.stdout + done.stderr

    def failing_test(self, regex):
        """The first test that fails; empty: none does."""
        done = subprocess.run(["ctest", "--test-dir", str(self.build), "-j", "2", "--stop-on-failure", "--timeout", str(SECONDS_A_TEST),
                               "--no-tests=error", "-R", regex], capture_output=True, text=True)
        if "No tests were found" in done.stdout + done.stderr:
            sys.exit(f"no test is called {regex}")
        failed = re.search(r"Test\s+#\d+: (.*?) \.*\s*\*\*\*(?!Skipped)", done.stdout)
        return failed.group(1).strip() if failed else ("" if done.returncode == 0 else "a test, without a name")


def judge(tree, mutant, rest):
    place, problem = place_of(mutant, sources(tree.path))
    if problem:
        sys.exit(f"{name_of(mutant)}: {problem}")
    text = place.read_text()
    place.write_text(text.replace(mutant["from"], mutant["to"]))
    try:
        made, words = tree.make(mutant["build"].split() if not rest else ["all"])
        if not made:
            errors = [line for line in words.splitlines() if "error:" in line]
            if errors:
                return "does not compile", errors[0]
            return "killed", "a test program that does not start"
        test = tree.failing_test(mutant["run"] if not rest else ".")
        return ("killed", test) if test else ("survived", "")
    finally:
        place.write_text(text)


def run(mutants, options):
    results = pathlib.Path(options.results)
    results.parent.mkdir(parents=True, exist_ok=True)
    known = {entry["name"]: entry for entry in read_results(results)}
    wanted = [mutant for mutant in mutants if re.search(options.only, name_of(mutant))]
    if options.rest:
        wanted = [mutant for mutant in wanted if known.get(name_of(mutant), {}).get("verdict") == "survived"]
    else:
        wanted = [mutant for mutant in wanted if name_of(mutant) not in known]
    tree = Tree(pathlib.Path(options.tree).resolve())
    # The unchanged programs first, so that a test that fails anyway is not taken for one that noticed.
    ready = set()
    for mutant in wanted:
        key = (mutant["build"], mutant["run"])
        if key not in ready and not options.trust:
            made, words = tree.make(mutant["build"].split())
            if not made:
                sys.exit(f"the unchanged sources do not build:\n{words[-2000:]}")
            failing = tree.failing_test(mutant["run"])
            if failing:
                sys.exit(f"'{failing}' fails without any mutant")
            ready.add(key)
        began = time.monotonic()
        verdict, test = judge(tree, mutant, options.rest)
        if verdict not in ("killed", "survived"):
            print(f"{name_of(mutant)} {verdict}: correct the table: {test}", flush=True)
            continue
        entry = {"name": name_of(mutant), "verdict": verdict, "test": test, "commit": tree.commit()}
        with results.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        print(f"{verdict:9} {name_of(mutant)}: {test} ({time.monotonic() - began:.0f} s)", flush=True)
    return 0


def read_results(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def report(mutants, options):
    known = {entry["name"]: entry for entry in read_results(pathlib.Path(options.results))}
    missing = [name_of(mutant) for mutant in mutants if name_of(mutant) not in known]
    if missing:
        print(f"not tried yet: {'; '.join(missing)}")
    judged = [(mutant, known[name_of(mutant)]) for mutant in mutants if name_of(mutant) in known]
    survivors = [mutant for mutant, entry in judged if entry["verdict"] == "survived"]
    excused = all(mutant.get("excuse") for mutant in survivors)
    commits = ", ".join(sorted({entry["commit"][:7] for _, entry in judged}))
    lines = ["# Mutants", "",
             "What the tests would notice: single-line mutants of the sources (`tests/mutants/table.txt`), each built and tested",
             "alone. Made by `scripts/mutants.sh && scripts/mutants.sh --report docs/results/mutants.md`.", "",
             f"At {commits}: **{len(judged)} of {len(mutants)} tried, {len(judged) - len(survivors)} killed, {len(survivors)} survived** "
             f"({100 * len(survivors) / max(1, len(judged)):.1f} %).", "",
             "| floor | file | mutation | noticed first by |", "|---|---|---|---|"]
    for mutant, entry in judged:
        cell = lambda text: text.replace("|", "\\|")
        by = cell(entry["test"]) if entry["verdict"] == "killed" else f"**nothing**: {cell(mutant.get('excuse', 'a test is missing'))}"
        lines.append(f"| {mutant['floor']} | `{mutant['file']}` | {cell(mutant['what'])} | {by} |")
    if missing:
        lines += ["", f"Not tried on this commit or an earlier one: {'; '.join(missing)}."]
    pathlib.Path(options.report).write_text("\n".join(lines) + "\n")
    return 1 if missing or not excused or 100 * len(survivors) > MOST_SURVIVORS_PERCENT * len(judged) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default=".", metavar="REGEX")
    parser.add_argument("--rest", action="store_true")
    parser.add_argument("--trust", action="store_true", help="do not test the unchanged sources first")
    parser.add_argument("--report", metavar="FILE")
    parser.add_argument("--tree", default=str(ROOT / "build/mutants/source"))
    parser.add_argument("--results", default=str(ROOT / "build/mutants/results.jsonl"))
    options = parser.parse_args()
    mutants = read_table()
    if options.check:
        return check(mutants, ROOT)
    return report(mutants, options) if options.report else run(mutants, options)


if __name__ == "__main__":
    sys.exit(main())
