"""Every C and C++ source file is as the formatter writes it. Usage: format_test.py SOURCE_DIR

The rules are in .clang-format. Other versions of the formatter break lines differently, so only version 14 judges."""
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77
FORMATTER = "clang-format-14"
TOPS = ("src", "include", "tests", "bench", "examples", "python")
SUFFIXES = {".h", ".cc", ".c"}


def sources(root):
    return [path for top in TOPS for path in sorted((root / top).rglob("*")) if path.suffix in SUFFIXES]


def main():
    root = pathlib.Path(sys.argv[1])
    if shutil.which(FORMATTER) is None:
        print(f"{FORMATTER} is not installed: scripts/setup.sh installs it")
        return SKIPPED
    files = sources(root)
    wrong = subprocess.run([FORMATTER, "--dry-run", "-Werror", *files], capture_output=True, text=True)
    names = sorted({line.split(":")[0] for line in wrong.stderr.splitlines() if "clang-format-violations" in line})
    for name in names:
        print(f"{name}: run {FORMATTER} -i on it")
    return wrong.returncode


sys.exit(main())
