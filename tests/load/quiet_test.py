"""With the library preloaded, programs that do not use it print what they print without, start no thread and open no file."""
import os
import subprocess
import sys

library = sys.argv[1]
REPORT = "import os; print(open('/proc/self/status').read().count('Threads:\\t1\\n'), len(os.listdir('/proc/self/fd')))"
PROGRAMS = [
    [sys.executable, "-c", "pass"],
    [sys.executable, "-c", REPORT],
    ["ls", "/"],
    ["bash", "-c", "echo $((1 + 1))"],
]


def run(program, preload):
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    environment["NCCL_DEBUG"] = "INFO"
    if preload:
        environment["LD_PRELOAD"] = library
    result = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60)
    return result.returncode, result.stdout, result.stderr


def main():
    failed = False
    for program in PROGRAMS:
        without, with_preload = run(program, False), run(program, True)
        if without != with_preload or with_preload[0] != 0:
            print(f"{program}: without {without}, with the preload {with_preload}")
            failed = True
    if run([sys.executable, "-c", REPORT], True)[1].split()[0] != "1":
        print("a thread was started")
        failed = True
    maps = subprocess.run([sys.executable, "-c", "print(open('/proc/self/maps').read())"], text=True, timeout=60,
                          env={**os.environ, "LD_PRELOAD": library}, capture_output=True).stdout
    if os.path.basename(library) not in maps:
        print("the library was not loaded at all")
        failed = True
    sys.exit(1 if failed else 0)


main()
