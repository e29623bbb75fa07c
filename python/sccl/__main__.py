"""python -m sccl run -n 8 -- program ...   starts ranks with the library preloaded
python -m sccl env                       the lines to evaluate in a shell for preloading, as in: eval "$(python -m sccl env)"
python -m sccl demo                      trains on 4 ranks with what is installed, and says what was used
python -m sccl build                     compiles the PyTorch part now instead of at its first import
python -m sccl VERB ...                  any other verb of the command `sccl`
"""
import os
import runpy
import shlex
import sys

from . import NotFound, command_path, library_path


def print_environment():
    preload = ":".join(filter(None, [library_path(), os.environ.get("LD_PRELOAD")]))
    print(f"export LD_PRELOAD={shlex.quote(preload)}")
    print(f"export SCCL_LIBRARY={shlex.quote(library_path())}")


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__, end="")
        return 0
    try:
        if arguments == ["env"]:
            print_environment()
            return 0
        if arguments == ["build"]:
            from .torch import build
            print(build.extension_path())
            return 0
        if arguments[0] == "demo":
            sys.argv = ["sccl demo"] + arguments[1:]
            runpy.run_module("sccl.demo", run_name="__main__")
            return 0
        command = command_path()
    except NotFound as missing:
        print(missing, file=sys.stderr)
        return 1
    os.execv(command, [command] + arguments)


def entry():
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    entry()
