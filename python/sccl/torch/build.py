"""Compiles the adapter for the PyTorch that is installed, once, and keeps it in the user's cache."""
import concurrent.futures
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import torch

MODULE = "sccl_torch_module"


class BuildError(RuntimeError):
    """The adapter cannot be compiled; the text says what is missing."""


def _sources():
    package = pathlib.Path(__file__).resolve().parent.parent
    for root, include in ((package / "csrc", package / "csrc" / "include"),  # an installed package
                          (package.parent / "csrc", package.parent.parent / "include")):  # a checkout
        if (root / "adapter" / "module.cc").is_file():
            return root, include
    raise BuildError(f"sccl: the sources of the PyTorch adapter are not beside {package}: install the package again")


def _cache():
    named = os.environ.get("SCCL_CACHE_DIR")
    base = pathlib.Path(named) if named else pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sccl"
    return base / "torch"


def _torch_folders():
    home = pathlib.Path(torch.__file__).resolve().parent
    includes = [home / "include", home / "include" / "torch" / "csrc" / "api" / "include",
                pathlib.Path("/usr/include/torch/csrc/api/include")]
    return [folder for folder in includes if folder.is_dir()], home / "lib"


def _flags():
    root, include = _sources()
    headers, _ = _torch_folders()
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    flags = ["-std=c++20" if version >= (2, 9) else "-std=c++17", "-O2", "-g0", "-fPIC", "-fvisibility=hidden",
             f"-DSCCL_TORCH_MODULE={MODULE}", "-DTORCH_API_INCLUDE_EXTENSION_H",
             f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
             f"-I{root / 'core'}", f"-I{include}", "-w"]
    for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):  # so that pybind11 takes torch's types for its own
        value = getattr(torch._C, f"_PYBIND11_{name}", None)
        if value is not None:
            flags.append(f'-DPYBIND11_{name}="{value}"')
    return flags + [f"-isystem{folder}" for folder in headers] + [f"-isystem{sysconfig.get_paths()['include']}"]


def _digest(root, include, flags):
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")) + sorted(include.rglob("nccl.h")):
        if path.suffix in (".h", ".cc"):
            digest.update(path.read_bytes())
    digest.update(repr((flags, torch.__version__, sys.version_info[:2])).encode())
    return digest.hexdigest()[:16]


def _compiler():
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not compiler:
        raise BuildError("sccl: no C++ compiler was found to compile the adapter for this PyTorch: install g++, or set CXX")
    return [shutil.which("ccache"), compiler] if shutil.which("ccache") else [compiler]


def _run(command, what):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == 0:
        return
    lines = [line for line in done.stdout.splitlines() if "error" in line or "No such file" in line] or done.stdout.splitlines()
    hint = "install the headers of PyTorch and Python (Debian: libtorch-dev, pybind11-dev, python3-dev)" \
        if "No such file" in done.stdout else "report it with the version of PyTorch"
    raise BuildError(f"sccl: {what} does not compile against PyTorch {torch.__version__}: " + "\n".join(lines[:8]) + f"\n{hint}")


def _compile(target):
    root, _ = _sources()
    flags = _flags()
    compiler = _compiler()
    _, libraries = _torch_folders()
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        sources = sorted((root / "core").rglob("*.cc")) + sorted((root / "adapter").rglob("*.cc"))
        objects = [os.path.join(scratch, f"{source.parent.name}_{source.stem}.o") for source in sources]
        jobs = [compiler + flags + ["-c", str(source), "-o", made] for source, made in zip(sources, objects)]
        with concurrent.futures.ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
            for source, job in [(source, pool.submit(_run, job, source.name)) for source, job in zip(sources, jobs)]:
                job.result()
        made = os.path.join(scratch, target.name)
        links = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ltorch_python", "-ltorch", "-ltorch_cpu", "-lc10", "-ldl", "-lpthread"]
        _run([compiler[-1], "-shared", "-o", made, *objects, *links], "the adapter")
        os.replace(made, target)


def extension_path():
    """The path of the compiled adapter; compiles it when this PyTorch meets these sources for the first time."""
    root, include = _sources()
    folder = _cache() / f"{torch.__version__.split('+')[0]}-{_digest(root, include, _flags())}"
    target = folder / f"{MODULE}.so"
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several ranks one compiles
        if not target.is_file():
            print(f"sccl: compiling the adapter for PyTorch {torch.__version__} (once; it is kept in {folder})", file=sys.stderr)
            _compile(target)
    return target
