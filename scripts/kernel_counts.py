#!/usr/bin/env python3
"""Compiles the device's kernels and counts in their machine code what costs time: registers, spills, fences, dependent loads.

Needs NVRTC (12 for sm_70, any for the others) and nvdisasm, but no device: `scripts/setup.sh --cuda` puts both into
~/.cache/sccl/cuda-tools. NVDISASM names others, separated by colons: that of CUDA 12 reads sm_70, too. Writes Markdown. With --check it fails where a limit of LIMITS is exceeded.

  begin, finish   the two halves of an operation, each a function of its own. Fences are counted that a step executes:
                  not those of a stop, which ends the kernel, and none may lie in a loop over peers.
  pass_run        does both for operations that move no data, for those of all peers at once. It has as few fences.
  pass_by_words   does both for an operation of which each thread sees to one peer, begin_by_slots and finish_by_slots one
                  each. They have as few fences, too; threads of a warp fence together.
  poll            the shortest loop with a strong load: what a leader does again and again while it waits.
"""
import argparse
import concurrent.futures
import ctypes as C
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "sccl" / "cuda-tools" / "nvidia"
TYPES = "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 float8e4m3 float8e5m2".split()
OPS = "sum prod max min".split()
ARCHITECTURES = "sm_70 sm_75 sm_80 sm_90 sm_100 sm_120".split()
THREADS = 512  # kMostThreads
ALONE = ("8pass_run", "13pass_by_words", "14begin_by_slots", "15finish_by_slots")  # functions that do an operation, or several, alone
LIMITS = {"registers": 65536 // THREADS, "spilled": 0, "system_fences": 2, "poll_chain": 2}


class Compiler:
    def __init__(self, path):
        self.path, self.lib = str(path), C.CDLL(str(path))
        major, minor = C.c_int(), C.c_int()
        self.lib.nvrtcVersion(C.byref(major), C.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def compile(self, source, architecture):
        program = C.c_void_p()
        if self.lib.nvrtcCreateProgram(C.byref(program), source.encode(), b"kernels", 0, None, None):
            raise RuntimeError("nvrtcCreateProgram")
        options = [f"--gpu-architecture={architecture}", "--std=c++17", "--device-as-default-execution-space", "--fmad=false",
                   "--ptxas-options=-v", "-lineinfo", f"-I{HERE.parent / 'src'}"]
        code = self.lib.nvrtcCompileProgram(program, len(options), (C.c_char_p * len(options))(*[o.encode() for o in options]))

        def take(kind):
            size = C.c_size_t()
            getattr(self.lib, f"nvrtcGet{kind}Size")(program, C.byref(size))
            data = C.create_string_buffer(max(1, size.value))
            getattr(self.lib, f"nvrtcGet{kind}")(program, data)
            return data.raw
        log = take("ProgramLog").decode(errors="replace")
        image = take("CUBIN") if code == 0 else b""
        self.lib.nvrtcDestroyProgram(C.byref(program))
        if code:
            raise RuntimeError(log[:400])
        return image, log


def compilers():
    """Newest first; each that can be loaded."""
    names = ["libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13", TOOLS / "cuda_nvrtc/lib/libnvrtc.so.12", "libnvrtc.so.12",
             "/usr/local/cuda/lib64/libnvrtc.so.12"]
    found = {}
    for name in names:
        try:
            compiler = Compiler(name)
            found.setdefault(compiler.version, compiler)
        except OSError:
            continue
    return list(found.values())


def source_of(name):
    mover = "sccl::device::gpu::Copying"
    if name in ("sccl_one_sided", "sccl_signal"):
        macro = f"SCCL_GPU_{name[5:].upper()}_KERNEL({name})"
    else:
        form = "MOVE_" if name.startswith("sccl_move_") else ""
        rest = name[len("sccl_move_" if form else "sccl_"):]
        if rest == "any":
            mover = "sccl::device::gpu::ReducingAny"
        elif rest != "copy":
            kind, op = rest.rsplit("_", 1)
            mover = (f"sccl::device::gpu::Reducing<static_cast<sccl::DataType>({TYPES.index(kind)}), "
                     f"static_cast<sccl::ReduceKernel>({OPS.index(op)})>")
        macro = f"SCCL_GPU_{form}KERNEL({name}, {mover})"
    return f'#include "kernels/gpu/call_kernel.h"\n{macro}\n'


# --- machine code ------------------------------------------------------------------------------------------------------

class Instruction:
    def __init__(self, address, text, chain):
        self.address, self.text, self.chain = address, text, chain
        body = re.sub(r"^@!?U?P\w+\s+", "", text)
        self.predicated = body != text
        self.opcode = body.split()[0]
        self.target = None
        label = re.search(r"`\((\.L_x_\d+)\)", text)
        if label and self.opcode.split(".")[0] in ("BRA", "BSSY", "BRX"):
            self.target = label.group(1) if self.opcode.startswith("BRA") else None

    def is_global_load(self):
        return re.match(r"LD(G)?(\.|$)", self.opcode) is not None

    def is_strong_load(self):
        return self.is_global_load() and "STRONG.SYS" in self.opcode

    def registers(self):
        """(written, read) of a load, as far as a chain of loads needs it."""
        operands = re.sub(r"^@!?U?P\w+\s+", "", self.text).split(None, 1)
        names = re.findall(r"\bU?R\d+\b", operands[1]) if len(operands) > 1 else []
        return names[:1], names[1:]


def functions(disassembly):
    """Instructions by function, labels by function; nvdisasm -g tells for each instruction where it was inlined from."""
    found, labels, name, pending, chain, fresh = {}, {}, None, [], [], True
    for line in disassembly.splitlines():
        if (match := re.match(r"^\.text\.(\S+):", line)) or (match := re.match(r"^(\$?\S*sccl\S*):$", line)):
            name = match.group(1)
            if not match.group(0).startswith(".text.") and "$" not in name:
                continue
            found[name], labels[name] = [], {}
        elif match := re.match(r"^(\.L_x_\d+):", line):
            pending.append(match.group(1))
        elif match := re.search(r'//## File "([^"]+)", line (\d+)( inlined at "([^"]+)", line (\d+))?', line):
            chain = chain if not fresh else []
            chain.append((pathlib.Path(match.group(1)).name, int(match.group(2))))
            if match.group(4):
                chain.append((pathlib.Path(match.group(4)).name, int(match.group(5))))
            fresh = False
        elif (match := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line)) and name:
            for label in pending:
                labels[name][label] = int(match.group(1), 16)
            pending, fresh = [], True
            found[name].append(Instruction(int(match.group(1), 16), match.group(2), list(chain)))
    return found, labels


class Graph:
    """Instructions of one function, and which may follow which."""

    def __init__(self, code, labels):
        self.code, self.at = code, {one.address: i for i, one in enumerate(code)}
        self.next = []
        for i, one in enumerate(code):
            after = []
            ends = one.opcode.split(".")[0] in ("EXIT", "RET", "BRA", "BRX") and not one.predicated
            if one.target in labels and labels[one.target] in self.at:
                after.append(self.at[labels[one.target]])
            # A branch on a predicate of its own operands (BRA P0, label; BRA.DIV) may fall through.
            if not ends or (one.opcode.startswith("BRA") and re.search(r"BRA\S*\s+!?U?[PR]", one.text)):
                if i + 1 < len(code):
                    after.append(i + 1)
            self.next.append(after)

    def cycle(self, start):
        """The shortest way from an instruction back to itself; empty when there is none."""
        before, queue = {}, [start]
        while queue:
            here = queue.pop(0)
            for other in self.next[here]:
                if other == start:
                    path = [here]
                    while path[-1] != start:
                        path.append(before[path[-1]])
                    return path[::-1]
                if other not in before:
                    before[other] = here
                    queue.append(other)
        return []

    def in_loop(self, index):
        return bool(self.cycle(index))


def chain_of_loads(code, path):
    """The longest row of global loads of which each needs what the one before it loaded. Twice round, so that what a round
    leaves for the next one counts."""
    depth, longest = {}, 0
    for index in path * 2:
        one = code[index]
        written, read = one.registers()
        below = max([depth.get(name, 0) for name in read], default=0)
        own = below + 1 if one.is_global_load() else below
        if one.opcode.split(".")[0] not in ("ST", "STG", "STS", "BRA", "MEMBAR", "CCTL", "BAR"):
            for name in written:
                depth[name] = own
        longest = max(longest, own if one.is_global_load() else 0)
    return longest


def is_of_stop(one):
    return any(file == "stop_signs.h" for file, _ in one.chain)


def counts(disassembly):
    found, labels = functions(disassembly)
    result = {"membar": 0, "cctl": 0, "strong": 0, "system_fences": 0, "device_fences": 0, "fences_in_loops": 0, "poll": None}
    alone = {one: {"system_fences": 0, "device_fences": 0} for one in ALONE}
    for name, code in found.items():
        run = next((one for one in ALONE if one in name), None)
        half = "begin" if "5begin" in name else "finish" if "6finish" in name else None
        graph = Graph(code, labels[name])
        for index, one in enumerate(code):
            result["membar"] += one.opcode.startswith("MEMBAR")
            result["cctl"] += one.opcode.startswith("CCTL")
            result["strong"] += one.is_strong_load()
            if (half or run) and one.opcode.startswith("MEMBAR") and not is_of_stop(one):
                (alone[run] if run else result)["system_fences" if one.opcode.endswith(".SYS") else "device_fences"] += 1
                result["fences_in_loops"] += graph.in_loop(index)
            if half == "begin" and one.is_strong_load() and not is_of_stop(one):
                path = graph.cycle(index)
                if path and (result["poll"] is None or len(path) < len(result["poll"][1])):
                    result["poll"] = (code, path)
    for counted in alone.values():
        for key, count in counted.items():
            result[key] = max(result[key], count)
    if result["poll"]:
        code, path = result.pop("poll")
        result["poll_instructions"] = len(path)
        result["poll_loads"] = sum(code[i].is_global_load() for i in path)
        result["poll_chain"] = chain_of_loads(code, path)
        result["poll_fences"] = sum(code[i].opcode.startswith(("MEMBAR", "CCTL")) for i in path)
    return result


def measure(task):
    name, architecture, path, disassembler = task
    try:
        image, log = Compiler(path).compile(source_of(name), architecture)
    except RuntimeError as error:
        return {"kernel": name, "architecture": architecture, "error": str(error)}
    row = {"kernel": name, "architecture": architecture, "registers": int(re.search(r"Used (\d+) registers", log).group(1)),
           "spilled": sum(int(a) + int(b) for a, b in re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log))}
    if disassembler and name in ("sccl_copy", "sccl_float_sum"):
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(image)
            file.flush()
            for tool in disassembler:  # 13 reads nothing before sm_75
                text = subprocess.run([tool, "-gi", "-c", file.name], capture_output=True, text=True, check=False).stdout
                if text:
                    row.update(counts(text))
                    break
    return row


def exceeded(row):
    return [f"{row['kernel']} {row['architecture']}: {key} {row[key]}, at most {most}" for key, most in LIMITS.items()
            if row.get(key) is not None and row[key] > most] + \
        ([f"{row['kernel']} {row['architecture']}: {row['fences_in_loops']} fences in loops"] if row.get("fences_in_loops") else []) + \
        ([f"{row['kernel']} {row['architecture']}: {row['error']}"] if "error" in row else [])


def markdown(rows, command, versions):
    lines = ["# Kernels: registers, fences, loads", "",
             f"`{command}`", "", f"NVRTC {' and '.join(versions)}. Nothing was run. A block has at most {THREADS} threads and a",
             f"multiprocessor's registers: {LIMITS['registers']} a thread.", "",
             "| architecture | kernels | registers, fewest | median | most | bytes spilled |", "| --- | --- | --- | --- | --- | --- |"]
    for architecture in dict.fromkeys(row["architecture"] for row in rows):
        some = sorted((row for row in rows if row["architecture"] == architecture and "registers" in row), key=lambda row: row["registers"])
        if some:
            lines.append(f"| {architecture} | {len(some)} | {some[0]['registers']} ({some[0]['kernel']}) | {some[len(some) // 2]['registers']} | "
                         f"{some[-1]['registers']} ({some[-1]['kernel']}) | {sum(row['spilled'] for row in some)} |")
    counted = [row for row in rows if row.get("poll_chain") is not None]
    if counted:
        lines += ["", "An operation's fences are those in its two functions (`begin`, `finish`), without those of a stop, which ends the kernel. The",
                  "poll is the shortest loop around a strong load; its chain is the longest row of global loads that wait for one another.", "",
                  "| architecture | kernel | MEMBAR | CCTL | strong loads | an operation: system fences | device fences | in loops | a poll: instructions | "
                  "loads | chain | fences |", "|" + " --- |" * 12]
        lines += [f"| {row['architecture']} | {row['kernel']} | {row['membar']} | {row['cctl']} | {row['strong']} | {row['system_fences']} | "
                  f"{row['device_fences']} | {row['fences_in_loops']} | {row['poll_instructions']} | {row['poll_loads']} | {row['poll_chain']} | "
                  f"{row['poll_fences']} |" for row in counted]
    without = sorted({row["architecture"] for row in rows} - {row["architecture"] for row in counted})
    if counted and without:
        lines += ["", f"Not disassembled: {', '.join(without)}, which this nvdisasm does not read."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default=",".join(ARCHITECTURES))
    parser.add_argument("--kernel", default="", help="names; all kernels of calls without")
    parser.add_argument("--out", help="Markdown file")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    options = parser.parse_args()
    names = options.kernel.split(",") if options.kernel else ["sccl_copy", "sccl_any", "sccl_one_sided", "sccl_signal"] + [
        f"sccl_{kind}_{op}" for kind in TYPES for op in OPS]
    all_compilers = compilers()
    if not all_compilers:
        print("kernel_counts: no NVRTC was found: scripts/setup.sh --cuda")
        return 77
    named = os.environ.get("NVDISASM", "").split(":")
    disassembler = [tool for tool in (*named, shutil.which("nvdisasm"), *map(str, TOOLS.glob("*/bin/nvdisasm"))) if tool]
    tasks, used = [], set()
    for architecture in options.arch.split(","):
        # 13 knows nothing before sm_75.
        fitting = [one for one in all_compilers if int(architecture[3:]) >= 75 or int(one.version.split(".")[0]) < 13]
        if not fitting:
            print(f"{architecture}: skipped, no NVRTC before 13 was found")
            continue
        used.add(fitting[0].version)
        tasks += [(name, architecture, fitting[0].path, disassembler) for name in names]
    with concurrent.futures.ProcessPoolExecutor(options.j) as executor:
        rows = list(executor.map(measure, tasks))
    command = "scripts/kernel_counts.py" + (f" --arch {options.arch}" if options.arch != ",".join(ARCHITECTURES) else "") + (
        f" --kernel {options.kernel}" if options.kernel else "")
    text = markdown(rows, command, sorted(used))
    print(text, end="")
    if options.out:
        pathlib.Path(options.out).write_text(text)
    wrong = [line for row in rows for line in exceeded(row)]
    for line in wrong:
        print("exceeds:", line)
    if not disassembler:
        print("kernel_counts: no nvdisasm was found, fences were not counted: scripts/setup.sh --cuda")
        return 77 if not wrong else 1
    return 1 if wrong and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
