"""libsccl for Python programs: where the library lies, and what starts programs with it.

    sccl.library_path()             the file to preload, or to open in NCCL's place
    python -m sccl run -n 8 -- ...  starts 8 ranks with the library preloaded
    import sccl.torch               registers the backend "sccl" with torch.distributed
"""
import os
import pathlib

__version__ = "0.1.0"


class NotFound(RuntimeError):
    """libsccl, or a part of its package, is not where it was looked for."""


def _folders():
    here = pathlib.Path(__file__).resolve().parent
    yield here / "lib"  # a wheel
    for up in list(here.parents)[:5]:  # a prefix, for instance lib/python3/site-packages
        yield up / "lib"
        yield up / "lib" / "x86_64-linux-gnu"
        yield up
    checkout = here.parent.parent
    for preset in ("release", "demo", "debug"):  # a checkout
        yield checkout / "build" / preset / "src" / "shim"


def library_path():
    """The path of libsccl.so: SCCL_LIBRARY, or what came with this package. Raises NotFound with the remedy."""
    named = os.environ.get("SCCL_LIBRARY")
    if named:
        if os.path.isfile(named):
            return os.path.abspath(named)
        raise NotFound(f"sccl: SCCL_LIBRARY={named} is no file: set it to the path of libsccl.so")
    for folder in _folders():
        candidate = folder / "libsccl.so"
        if candidate.is_file():
            return str(candidate)
    raise NotFound("sccl: libsccl.so was not found beside the package: install the wheel, or set SCCL_LIBRARY to its path")


def command_path():
    """The path of the command `sccl`. Raises NotFound with the remedy."""
    library = pathlib.Path(library_path())
    for candidate in (library.parent.parent / "bin" / "sccl", library.parent.parent.parent / "bin" / "sccl",
                      library.parent.parent / "tools" / "sccl"):
        if candidate.is_file():
            return str(candidate)
    raise NotFound(f"sccl: the command was not found near {library}: install the wheel, which brings it")
