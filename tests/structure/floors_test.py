"""The rules of the source tree that a compiler does not check. Usage: floors_test.py SOURCE_DIR | --self-test"""
import pathlib
import re
import sys
import tempfile

# A file includes only files of its own folder and of folders with a smaller number.
FLOORS = {"base": 0, "topology": 1, "schedule": 2, "synth": 3, "treegen": 3, "planners": 3, "compose": 3,
          "portfolio": 4, "platform": 4, "net": 4, "kernels": 5, "runtime": 6, "shim": 7, "tools": 7}
# The rooms of the folders that have some, from the lowest up ("" is the folder itself): a file there includes only files
# of its own room and of lower ones.
ROOMS = {
    "base": ["", "settings", "os"],
    "topology": ["", "graph", "symmetry", "system", "formats", "probe"],
    "schedule": ["", "proof", "lowering", "simulation", "msccl"],
    "compose": ["form", "proof", "lowering", "network", "cost", "latency", "bounds"],
    "portfolio": ["links", "host", "flat", "prediction", "composites", "clusters", ""],
    "kernels": ["device", "gpu", "program", "instantiate", "host/vectors", "host/reduce", "host/messages", "host/arrival",
                "host"],
    "runtime": ["call", "trace", "bootstrap/sockets", "bootstrap/meeting", "bootstrap", "waiting",
                "control/state", "control", "control/hosts", "transport", "transport/shm", "transport/net/wire",
                "transport/net/puts", "transport/net/link", "transport/net", "vendor/library", "settings", "plugins", "program",
                "transport/mapped", "transport/staged", "transport/p2p", "transport/proxy", "transport/stream",
                "choice", "choice/tuning", "membership/hosts", "membership", "host/health", "vendor",
                "host/lanes", "host/choosing",
                "host", "gpu/resources", "gpu/stream", "gpu/watch", "gpu/choice", "gpu/launch", "gpu/program",
                "gpu/kernel", "windows", "communicator/state", "communicator"],
}
MOST_FILES_IN_A_ROOM = 16
MOST_LINES = 600
SOURCES = {".h", ".cc", ".c", ".py", ".sh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
SETTING = re.compile(r'(?:env::(?:value|text|number|flag)\(\s*|const char\* k\w+ = |\bgetenv\()"((?:NCCL|SCCL)_[A-Z0-9_]+)"')
MACHINE_PATH = re.compile(r"/(?:work|farm)/[a-z]")


def folder_of(path):
    return path.split("/")[0]


# Device code and what it may include.
OF_DEVICES_TOO = ("base/scalar_types.h", "base/lane_order.h")
DEVICE_CODE = {"kernels/device/": ("kernels/device/", *OF_DEVICES_TOO),
               "kernels/gpu/": ("kernels/gpu/", "kernels/device/", *OF_DEVICES_TOO)}


def check_includes(relative, text):
    own = folder_of(relative)
    for kind, name in INCLUDE.findall(text):
        for folder, allowed in DEVICE_CODE.items():
            if relative.startswith(folder) and (kind == "<" or not name.startswith(allowed)):
                yield f"src/{relative} is device code and includes {name}"
        other = folder_of(name)
        if kind == "<" or other not in FLOORS or other == own:
            continue
        if FLOORS[other] >= FLOORS[own]:
            yield f"src/{relative} (floor {FLOORS[own]}) includes {name} (floor {FLOORS[other]})"


def room_of(path):
    """The place of a path's room in its folder's list; None where it lies in none, or its folder has no rooms."""
    folder, _, rest = path.partition("/")
    room = rest.rpartition("/")[0]
    return ROOMS[folder].index(room) if room in ROOMS.get(folder, []) else None


def check_rooms(root, folder):
    files = {}
    for path in sorted((root / "src" / folder).rglob("*")):
        if path.suffix not in {".h", ".cc"}:
            continue
        relative = path.relative_to(root / "src").as_posix()
        room = room_of(relative)
        if room is None:
            yield f"src/{relative} lies in no room of src/{folder}"
            continue
        files[room] = files.get(room, 0) + 1
        for kind, name in INCLUDE.findall(path.read_text(errors="replace")):
            other = room_of(name) if kind == '"' and folder_of(name) == folder else None
            if other is not None and other > room:
                yield f"src/{relative} includes {name} of a room above"
    for room, count in files.items():
        if count > MOST_FILES_IN_A_ROOM:
            yield f"src/{folder}/{ROOMS[folder][room]} has {count} files: divide it"


def check_settings(root):
    """A variable is read in one file: others ask the function there that gives it a meaning."""
    readers = {}
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in {".h", ".cc"}:
            for name in SETTING.findall(path.read_text(errors="replace")):
                readers.setdefault(name, set()).add(path.relative_to(root).as_posix())
    for name, files in sorted(readers.items()):
        if len(files) > 1:
            yield f"{name} is read in {', '.join(sorted(files))}: one function reads it, the others ask that"


def check_file(root, path):
    text = path.read_text(errors="replace")
    relative = path.relative_to(root).as_posix()
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        yield f"{relative} has {len(lines)} lines: split it"
    if path.suffix in {".h", ".cc"} and relative.startswith("src/"):
        if folder_of(relative[4:]) not in FLOORS:
            yield f"{relative} lies on no floor"
        yield from check_includes(relative[4:], text)
        header = path.with_suffix(".h")
        opens_with_comment = bool(lines) and lines[0].startswith(("//", "/*"))
        if not opens_with_comment and (path.suffix == ".h" or not header.exists()):
            yield f"{relative} does not open with a comment that says its idea"
    if path.name != "floors_test.py" and MACHINE_PATH.search(text):
        yield f"{relative} names a path of one machine"


def check_tree(root):
    for folder in ROOMS:
        yield from check_rooms(root, folder)
    yield from check_settings(root)
    for top in ("src", "include", "tests", "examples", "scripts", "bench", "docs", "cmake", "python"):
        for path in sorted((root / top).rglob("*")):
            if path.is_file() and (path.suffix in SOURCES or path.suffix == ".md"):
                yield from check_file(root, path)


VIOLATIONS = {
    "src/base/up.h": '// Up.\n#include "runtime/communicator/group.h"\n',
    "src/kernels/device/host.h": "// Host.\n#include <vector>\n",
    "src/kernels/gpu/host.h": '// Host.\n#include "kernels/host/target.h"\n',
    "src/runtime/call/up.h": '// Up.\n#include "runtime/host/executor.h"\n',
    "src/runtime/lost.h": "// No room.\n",
    "src/schedule/cellar/lost.h": "// No room.\n",
    "src/base/up_to_a_room.h": '// Up.\n#include "base/settings/log.h"\n',
    "src/planners/side.h": '// Side.\n#include "synth/solver.h"\n',
    "src/cellar/lost.h": "// No floor.\n",
    "src/base/silent.h": "#pragma once\n",
    "tests/long.cc": "// Long.\n" * (MOST_LINES + 1),
    "docs/path.md": "see /work" + "/main\n",
}


def self_test():
    missed = []
    for name, text in VIOLATIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / name).parent.mkdir(parents=True)
            (root / name).write_text(text)
            if not list(check_tree(root)):
                missed.append(f"the violation in {name} was not found")
    with tempfile.TemporaryDirectory() as folder:
        room = pathlib.Path(folder) / "src/runtime/call"
        room.mkdir(parents=True)
        for number in range(MOST_FILES_IN_A_ROOM + 1):
            (room / f"{number}.h").write_text("// One.\n")
        if not list(check_tree(pathlib.Path(folder))):
            missed.append("a room of too many files was not found")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "src/base").mkdir(parents=True)
        for name in ("one.cc", "two.cc"):
            (pathlib.Path(folder) / "src/base" / name).write_text('// Two.\nauto text = env::text("SCCL_TOPO");\n')
        if not list(check_settings(pathlib.Path(folder))):
            missed.append("a variable that is read in two files was not found")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "src/runtime/communicator").mkdir(parents=True)
        (root / "src/runtime/communicator/good.h").write_text('// Good.\n#include "base/error.h"\n#include "runtime/communicator/group.h"\n')
        missed += list(check_tree(root))
    return missed


found = self_test() if sys.argv[1] == "--self-test" else list(check_tree(pathlib.Path(sys.argv[1])))
for line in found:
    print(line)
sys.exit(1 if found else 0)
