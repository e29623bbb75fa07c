"""docs/results/scale.md and its pictures: what sccl plan foresees on clusters of 32 to 16384 ranks, beside flat schedules,
the two-phase form of PCCL, and the bound.

Usage: scale.py --sccl COMMAND [--out docs/results/scale.md]
The pictures are written beside the page. Flat ring, flat recursive doubling and the two-phase form are closed forms over
the same figures of NICs and latencies; all else is what `sccl plan --bound --json` prints.
"""
import argparse
import json
import math
import os
import platform
import subprocess
import tempfile
import time

MIB = 1 << 20
MB = 10 ** 6
NETWORK_ALPHA_US = 5.0   # as in A*PRESET
NIC_BYTES_PER_US = 12.5e3
PRESETS = ["dgx-a100", "dgx-h100", "dgx2", "dgx1v", "dgx1p", "mi250x", "mi300x", "z52", "z52-full", "pcie4", "pcie8",
           "nvpairs4"]
HOSTS = [2, 3, 4, 5, 8, 16, 64, 100, 256]
COLLECTIVES = ["allgather", "reducescatter", "allreduce", "broadcast", "reduce", "alltoall", "gather", "scatter"]
TARGETS = {"alltoall": 1.25, "gather": math.inf, "scatter": math.inf}   # of the others: 1.10
SHARE = {"allgather", "gather"}    # --bytes is one rank's part of the result


class Machine:
    """Hosts of `devices` devices with NICs, for the paper's two machines."""
    def __init__(self, name, devices, nics, nic_gbytes, inner_gbytes, alpha_us):
        self.name, self.devices, self.nics = name, devices, nics
        self.nic_gbytes, self.inner_gbytes, self.alpha_us = nic_gbytes, inner_gbytes, alpha_us

    def topology(self, hosts):
        ranks = hosts * self.devices
        switch = lambda host, number: ranks + host * (1 + self.nics) + number
        fabric = ranks + hosts * (1 + self.nics)
        links = []

        def join(a, b, gbytes, alpha_us, kind):
            for src, dst in ((a, b), (b, a)):
                links.append({"src": src, "dst": dst, "lanes": 1, "gbytes_per_s": gbytes, "alpha_us": alpha_us, "class": kind})
        for host in range(hosts):
            for device in range(self.devices):
                rank = host * self.devices + device
                join(rank, switch(host, 0), self.inner_gbytes, 1.0, "xgmi")
                join(rank, switch(host, 1 + device * self.nics // self.devices), 50, 0, "pcie")
            for nic in range(self.nics):
                join(switch(host, 1 + nic), fabric, self.nic_gbytes, self.alpha_us / 2, "net")
        return {"name": f"{hosts}*{self.name}", "ranks": ranks, "switches": fabric + 1 - ranks, "links": links}

    def ring_us(self, collective, ranks, size):
        """One NIC of a host carries all that passes from host to host."""
        return (2 if collective == "allreduce" else 1) * (ranks - 1) * (self.alpha_us + size / ranks / (self.nic_gbytes * 1e3))

    def two_phase_us(self, ranks, size):
        hosts = ranks // self.devices
        between = math.ceil(math.log2(hosts)) * self.alpha_us + size * (hosts - 1) / hosts / (self.nics * self.nic_gbytes * 1e3)
        return between + (self.devices - 1) * 2 + size * (self.devices - 1) / self.devices / (self.inner_gbytes * 1e3)


# Figures of the papers' machines as the notes on them have them: four NICs of 25 GB/s; 40 GB/s between GCDs.
FRONTIER = Machine("frontier", 8, 4, 25, 40, 10)
PERLMUTTER = Machine("perlmutter", 4, 4, 25, 80, 10)


def planned(sccl, arguments):
    begin = time.monotonic()
    done = subprocess.run([sccl, "plan", *arguments, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout), time.monotonic() - begin


def plan(sccl, topology, collective, result_bytes, ranks):
    buffer = max(1, result_bytes // ranks) if collective in SHARE else result_bytes
    answer, seconds = planned(sccl, ["--topo", topology, "--collective", collective, "--bytes", str(buffer), "--bound"])
    best = answer["candidates"][0]
    return best["algo"], best["time_us"], best["bound_us"], seconds


def ranks_of(preset):
    return {"dgx2": 16, "mi250x": 16, "pcie4": 4, "nvpairs4": 4}.get(preset, 8)


def flat_ring_us(ranks, result_bytes):
    # One NIC of a host carries all that passes from host to host.
    return (ranks - 1) * (NETWORK_ALPHA_US + result_bytes / ranks / NIC_BYTES_PER_US)


def flat_recursive_us(ranks, result_bytes):
    return math.ceil(math.log2(ranks)) * NETWORK_ALPHA_US + result_bytes * (ranks - 1) / ranks / NIC_BYTES_PER_US


def two_phase_us(ranks, devices, result_bytes, host_bytes_per_us):
    hosts = ranks // devices
    between = math.ceil(math.log2(hosts)) * NETWORK_ALPHA_US + \
        result_bytes / devices * (hosts - 1) / hosts / NIC_BYTES_PER_US
    return between + (devices - 1) * 2 + result_bytes * (devices - 1) / devices / host_bytes_per_us


def over_ranks(sccl, write, points):
    write("## AllGather over ranks, dgx-a100\n\nus; the result has so many MiB on every rank.\n")
    write("| MiB | ranks | levels | schedule | flat ring | flat recursive | two phases, one after the other | bound |")
    write("|---|---|---|---|---|---|---|---|")
    for mib in (16, 64, 256, 1024):
        for hosts in (4, 16, 64, 256, 1024, 2048):
            ranks = hosts * 8
            algo, us, bound, _ = plan(sccl, f"{hosts}*dgx-a100", "allgather", mib * MIB, ranks)
            ring = flat_ring_us(ranks, mib * MIB)
            points.setdefault(mib, []).append((ranks, us, ring, flat_recursive_us(ranks, mib * MIB),
                                               two_phase_us(ranks, 8, mib * MIB, 300e3), bound))
            write(f"| {mib} | {ranks} | {us:.0f} | {algo} | {ring:.0f} | {flat_recursive_us(ranks, mib * MIB):.0f} | "
                  f"{two_phase_us(ranks, 8, mib * MIB, 300e3):.0f} | {bound:.0f} |")


def against_bound(sccl, write):
    write("\n## Predicted time over the bound\n")
    write(f"The greatest over {', '.join(map(str, HOSTS))} hosts, and over 64 MiB, 256 MiB and 1 GiB on every rank; in brackets how "
          "many of the 27 cells are above the target (1.10; AlltoAll 1.25; Gather and Scatter have none).\n")
    write("| hosts of | " + " | ".join(COLLECTIVES) + " |\n|---|" + "---|" * len(COLLECTIVES))
    worst = []
    for preset in PRESETS:
        cells = []
        for one in COLLECTIVES:
            target = TARGETS.get(one, 1.10)
            found = []
            for hosts in HOSTS:
                for mib in (64, 256, 1024):
                    algo, us, bound, _ = plan(sccl, f"{hosts}*{preset}", one, mib * MIB, hosts * ranks_of(preset))
                    found.append((us / bound, hosts, mib, algo))
            above = sum(1 for ratio, *_ in found if ratio > target + 5e-4)
            ratio, hosts, mib, algo = max(found)
            cells.append(f"{ratio:.2f}" + (f" ({above})" if above else ""))
            if above:
                worst.append((ratio, one, hosts, preset, mib, algo, above))
        write(f"| {preset} | " + " | ".join(cells) + " |")
    write("\nThe worst cell of each that has one above its target:\n")
    write("| collective | cluster | MiB | over the bound | schedule | cells above |\n|---|---|---|---|---|---|")
    for ratio, one, hosts, preset, mib, algo, above in sorted(worst, reverse=True):
        write(f"| {one} | {hosts}*{preset} | {mib} | {ratio:.2f} | {algo} | {above} |")


def simulated(sccl, write):
    """What a simulation of all ranks says of the schedules that are chosen."""
    names = COLLECTIVES[:5]
    write("\n## Foreseen, and simulated on all ranks: 64 ranks\n")
    write("What `sccl plan` predicts over the bound, and what `sccl simulate` says of the same schedule and slices; so many MiB on every rank.\n")
    write("| hosts | MiB | " + " | ".join(names) + " |\n|---|---|" + "---|" * len(names))
    for preset in PRESETS:
        hosts = 64 // ranks_of(preset)
        for mib in (1, 8, 64, 256):
            cells = []
            for one in names:
                buffer = mib * MIB // 64 if one in SHARE else mib * MIB
                call = ["--topo", f"{hosts}*{preset}", "--collective", one, "--bytes", str(buffer)]
                best = planned(sccl, [*call, "--bound"])[0]["candidates"][0]
                done = subprocess.run([sccl, "simulate", *call, "--algo", best["algo"], "--slice", str(int(best["slice_bytes"])), "--json"],
                                      check=True, capture_output=True, text=True)
                answer = json.loads(done.stdout)
                if not answer.get("simulated", True):
                    raise SystemExit(f"{hosts}*{preset}: {one} by {best['algo']} has too many sends for a simulation")
                cells.append(f"{best['time_us'] / best['bound_us']:.2f}, {answer['time_us'] / best['bound_us']:.2f}")
            write(f"| {hosts}*{preset} | {mib} | " + " | ".join(cells) + " |")


def racked(machine, sizes, uplinks):
    """The machine's hosts on racks of so many, each with one link to a switch above them."""
    topology = machine.topology(sum(sizes))
    ranks, fabric = topology["ranks"], topology["ranks"] + topology["switches"] - 1   # becomes the first rack's switch
    rack_of = [rack for rack, size in enumerate(sizes) for _ in range(size)]
    for link in topology["links"]:
        for end, other in (("src", "dst"), ("dst", "src")):
            if link[end] == fabric:
                link[end] = fabric + rack_of[(link[other] - ranks) // (1 + machine.nics)]
    above = fabric + len(sizes)
    for rack, rate in enumerate(uplinks):
        for src, dst in ((fabric + rack, above), (above, fabric + rack)):
            topology["links"].append({"src": src, "dst": dst, "lanes": 1, "gbytes_per_s": rate, "alpha_us": 2, "class": "net"})
    topology["switches"] += len(sizes)
    return topology


def own_topologies(sccl, write, folder):
    """Hosts as jobs find them: odd numbers, mixed sizes and kinds, few NICs, a slow rack, ranks in another order."""
    def path(name, topology):
        file_name = os.path.join(folder, name + ".json")
        with open(file_name, "w") as file:
            json.dump(topology, file)
        return file_name
    two_nics = Machine("two NICs for eight", 8, 2, 25, 150, 5).topology(7)
    racks = racked(Machine("racks", 4, 2, 25, 100, 5), [4, 4], [30, 30])
    unlike = racked(Machine("unlike racks", 4, 2, 25, 100, 5), [2, 2, 3], [30, 60, 90])
    many_racks = racked(Machine("many racks", 4, 2, 25, 100, 5), [8] * 16, [50] * 16)
    cases = [("7 hosts of 8 with two NICs each", path("two_nics", two_nics), None, 56),
             ("2 racks of 4 hosts of 4, 30 GB/s between racks", path("racks", racks), None, 32),
             ("3 racks of 2, 2 and 3 hosts of 4, 30, 60 and 90 GB/s from them", path("unlike", unlike), None, 28),
             ("16 racks of 8 hosts of 4, 50 GB/s between racks", path("many_racks", many_racks), None, 512),
             ("3 + 5 of dgx1v", "2*dgx1v", "1,4,5,8,9,10,12,15", 8),
             ("3 + 5 + 2 of dgx1v, ranks dealt out over hosts", "3*dgx1v", "8,1,16,9,4,10,19,5,12,15", 10),
             ("11*dgx-h100", "11*dgx-h100", None, 88)]
    names = ["allgather", "reducescatter", "allreduce", "broadcast", "alltoall"]
    write("\n## Other clusters, 256 MiB on every rank: predicted time over the bound\n")
    write("| cluster | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for name, topology, devices, ranks in cases:
        cells = []
        for one in names:
            buffer = 256 * MIB // ranks if one in SHARE else 256 * MIB
            more = ["--devices", devices] if devices else []
            answer, _ = planned(sccl, ["--topo", topology, *more, "--collective", one, "--bytes", str(buffer), "--bound"])
            best = answer["candidates"][0]
            cells.append(f"{best['time_us'] / best['bound_us']:.2f} {best['algo']}")
        write(f"| {name} | " + " | ".join(cells) + " |")


def cluster_of(sccl, preset, hosts):
    """The topology of hosts of a preset, the switch that joins them, and how many devices each has."""
    shown = subprocess.run([sccl, "topo", "--topo", f"{hosts}*{preset}", "--json"], check=True, capture_output=True, text=True)
    topology = json.loads(shown.stdout)
    return topology, topology["ranks"] + topology["switches"] - 1, topology["ranks"] // hosts


def in_a_row(sccl, preset, hosts, rates):
    """Hosts of a preset on switches of their own: each is joined to the next one by a link of this part of its NICs' rate, and the
    last to the first if there is a rate for it."""
    topology, fabric, devices = cluster_of(sccl, preset, hosts)
    for link in topology["links"]:
        for end, other in (("src", "dst"), ("dst", "src")):
            if link[end] == fabric:
                link[end] = fabric + link[other] // devices
    nic = next(link["gbytes_per_s"] for link in topology["links"] if link["class"] == "net")
    for host, rate in enumerate(rates):
        next_host = fabric + (host + 1) % hosts
        for src, dst in ((fabric + host, next_host), (next_host, fabric + host)):
            topology["links"].append({"src": src, "dst": dst, "lanes": 1, "gbytes_per_s": rate * devices * nic, "alpha_us": 1,
                                      "class": "net"})
    topology["switches"] += hosts - 1
    topology.pop("switch_kinds", None)
    topology["name"] = f"{hosts} of {preset} in a row"
    return topology


def joined_unevenly(sccl, write, folder):
    """Lines and rings of hosts."""
    names = ["allgather", "reducescatter", "allreduce", "broadcast", "reduce"]
    unequal = [1, 0.5, 2, 0.25, 1, 0.75, 1]
    shapes = [("line", lambda hosts: [1] * (hosts - 1)), ("line, a quarter", lambda hosts: [0.25] * (hosts - 1)),
              ("line, 1/4 to 2", lambda hosts: unequal[:hosts - 1]), ("ring, a half", lambda hosts: [0.5] * hosts),
              ("ring, a quarter", lambda hosts: [0.25] * hosts)]
    write("\n## Hosts in lines and rings, 64 MiB on every rank: predicted time over the bound\n")
    write("The greatest over 3 to 8 hosts, its number of hosts and schedule. Each host has a switch of its own; links between these carry "
          "as much as a host's NICs, or the part of it that is named.\n")
    write("| hosts of | joined in a | " + " | ".join(names) + " |\n|---|---|" + "---|" * len(names))
    path = os.path.join(folder, "row.json")
    for preset in ("dgx1v", "dgx-a100", "pcie4"):
        for title, rates in shapes:
            found = {one: [] for one in names}
            for hosts in range(3, 9):
                with open(path, "w") as file:
                    json.dump(in_a_row(sccl, preset, hosts, rates(hosts)), file)
                for one in names:
                    algo, us, bound, _ = plan(sccl, path, one, 64 * MIB, hosts * ranks_of(preset))
                    found[one].append((us / bound, hosts, algo))
            cells = [f"{ratio:.2f} ({hosts}) {algo}" for ratio, hosts, algo in (max(found[one]) for one in names)]
            write(f"| {preset} | {title} | " + " | ".join(cells) + " |")


def with_some_nics(sccl, preset, hosts, every, nic_gbytes_per_s):
    """Hosts of a preset on one switch; of each only one device of so many has a NIC."""
    topology, fabric, devices = cluster_of(sccl, preset, hosts)
    kept = []
    for link in topology["links"]:
        if fabric in (link["src"], link["dst"]):
            if min(link["src"], link["dst"]) % devices % every:
                continue
            link["gbytes_per_s"] = nic_gbytes_per_s
        kept.append(link)
    topology["links"] = kept
    topology["name"] = f"{hosts} of {preset} with NICs at every {every}th device"
    return topology


def some_nics(sccl, write, folder):
    names = ("allgather", "reducescatter", "allreduce", "broadcast", "alltoall")
    write("\n## NICs at some devices, 64 MiB on every rank: predicted time over the bound\n")
    write("4 hosts on one switch; NICs of 25 GB/s at every second or fourth device of a host, those with even or fourfold numbers.\n")
    write("| hosts of | NICs at every | " + " | ".join(names) + " |\n|---|---|" + "---|" * len(names))
    path = os.path.join(folder, "nics.json")
    for preset in ("dgx1v", "dgx1p", "dgx-a100", "mi250x", "mi300x", "z52", "pcie4", "pcie8"):
        for every in (2, 4):
            with open(path, "w") as file:
                json.dump(with_some_nics(sccl, preset, 4, every, 25), file)
            cells = []
            for one in names:
                algo, us, bound, _ = plan(sccl, path, one, 64 * MIB, 4 * ranks_of(preset))
                cells.append(f"{us / bound:.2f} {algo}")
            write(f"| {preset} | {'second' if every == 2 else 'fourth'} | " + " | ".join(cells) + " |")


def seconds(sccl, write):
    write("\n## Time and memory to plan\n\nOf the slowest of five collectives, each for 64 KiB and 1 GiB; on two cores.\n")
    write("| cluster | ranks | s | MB |\n|---|---|---|---|")
    for topology, ranks in (("4*z52-full", 32), ("4*pcie8", 32), ("8*pcie8", 64), ("8*dgx2", 128), ("16*dgx-a100", 128),
                            ("256*dgx-a100", 2048), ("256*mi250x", 4096), ("2048*dgx-a100", 16384), ("2048*pcie8", 16384)):
        slowest = largest = 0
        for one in ("allgather", "reducescatter", "allreduce", "broadcast", "alltoall"):
            for size in ("64K", "1G"):
                done = subprocess.run(["/usr/bin/time", "-f", "%e %M", sccl, "plan", "--topo", topology, "--collective", one,
                                       "--bytes", size, "--bound"], check=True, capture_output=True, text=True)
                elapsed, kib = done.stderr.split()[-2:]
                slowest, largest = max(slowest, float(elapsed)), max(largest, int(kib) / 1024)
        write(f"| {topology} | {ranks} | {slowest:.2f} | {largest:.0f} |")


def short(sccl, write):
    write("\n## AllReduce of 1 KiB\n\nus, and 1.5 x (ceil(log2 hosts) network latencies of 5 us + 4 of 2 us on a host).\n")
    write("| hosts of dgx-a100 | schedule | predicted | limit |\n|---|---|---|---|")
    for hosts in (3, 5, 8, 16, 64, 100, 256, 2048):
        algo, us, _, _ = plan(sccl, f"{hosts}*dgx-a100", "allreduce", 1024, 8)
        limit = 1.5 * (math.ceil(math.log2(hosts)) * 5 + 4 * 2)
        write(f"| {hosts} | {algo} | {us:.1f} | {limit:.1f} |")


SIZES_MB = (16, 32, 64, 128, 256, 512, 1024)
PROCESSES = (32, 64, 128, 256, 512, 1024, 2048)


def svg(width, height, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
                      f'font-size="11">', f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>"]) + "\n"


def color_of(factor):
    """Blue below 1, white at 1, red at 64 and above."""
    if factor < 1:
        shade = max(0.0, 1 + math.log2(factor))
        return f"rgb({int(255 * shade)},{int(255 * shade)},255)"
    shade = 1 - min(1.0, math.log2(factor) / 6)
    return f"rgb(255,{int(80 + 175 * shade)},{int(60 + 195 * shade)})"


def heat_map(title, cells, left):
    """Processes to the right, MB upwards, as the paper draws them."""
    cell, top = 44, 40
    parts = [f'<text x="{left}" y="16">{title}</text>']
    for row, size in enumerate(reversed(SIZES_MB)):
        y = top + row * 24
        parts.append(f'<text x="{left - 6}" y="{y + 16}" text-anchor="end">{size}</text>')
        for column, ranks in enumerate(PROCESSES):
            factor = cells[(ranks, size)]
            x = left + column * cell
            parts.append(f'<rect x="{x}" y="{y}" width="{cell}" height="24" fill="{color_of(factor)}" stroke="white"/>')
            parts.append(f'<text x="{x + cell / 2:.0f}" y="{y + 16}" text-anchor="middle">{factor:.{1 if factor < 100 else 0}f}</text>')
    for column, ranks in enumerate(PROCESSES):
        parts.append(f'<text x="{left + (column + 0.5) * cell:.0f}" y="{top + len(SIZES_MB) * 24 + 16}" text-anchor="middle">{ranks}</text>')
    return parts


def heat_maps(sccl, write, folder, picture_path):
    figures = {}
    for machine in (FRONTIER, PERLMUTTER):
        for ranks in PROCESSES:
            path = os.path.join(folder, f"{machine.name}_{ranks}.json")
            with open(path, "w") as file:
                json.dump(machine.topology(ranks // machine.devices), file)
            for one in ("allgather", "reducescatter", "allreduce"):
                for size in SIZES_MB:
                    buffer = size * MB // ranks if one in SHARE else size * MB
                    answer, _ = planned(sccl, ["--topo", path, "--collective", one, "--bytes", str(buffer)])
                    figures[machine.name, one, ranks, size] = answer["candidates"]
    best = lambda machine, one, ranks, size: figures[machine.name, one, ranks, size][0]["time_us"]

    def by_shape(ranks, size, shape):
        found = [row["time_us"] for row in figures["frontier", "reducescatter", ranks, size] if row["algo"].startswith(f"levels/{shape}")]
        return min(found) if found else math.nan
    halving = {(r, s): by_shape(r, s, "ring") / by_shape(r, s, "doubling") for r in PROCESSES for s in SIZES_MB}
    with open(picture_path("figure6"), "w") as file:
        file.write(svg(400, 240, heat_map("Figure 6: halving over ring between hosts, ReduceScatter, MB over processes", halving, 50)))
    for machine, name, figure in ((PERLMUTTER, "figure9", "9"), (FRONTIER, "figure11", "11")):
        parts = []
        for place, one in enumerate(("allgather", "reducescatter", "allreduce")):
            cells = {(r, s): machine.ring_us(one, r, s * MB) / best(machine, one, r, s) for r in PROCESSES for s in SIZES_MB}
            parts += heat_map(f"Figure {figure}: {one} on {machine.name}, ours over flat ring", cells, 50 + place * 370)
        with open(picture_path(name), "w") as file:
            file.write(svg(1130, 240, parts))
    write("\n## The paper's heat maps\n")
    write("Speedups of PCCL's Figures 6, 9 and 11 with the same axes: processes to the right, MB of the result (or input) upwards. "
          "Hosts have four NICs of 25 GB/s, 10 us between hosts, and 40 GB/s (Frontier) or 80 GB/s (Perlmutter) inside.\n")
    for name in ("figure6", "figure9", "figure11"):
        write(f"![{name}](scale_{name}.svg)\n")
    write("AllGather of 2048 processes on Frontier, over flat ring:\n")
    write("| MB | ours | two phases, one after the other | expected of two phases |\n|---|---|---|---|")
    for size, expected in ((16, "31"), (64, "9"), (256, "3.0"), (1024, "1.3")):
        ring = FRONTIER.ring_us("allgather", 2048, size * MB)
        write(f"| {size} | {ring / best(FRONTIER, 'allgather', 2048, size):.1f} | {ring / FRONTIER.two_phase_us(2048, size * MB):.1f} | "
              f"{expected} |")
    write("\nWhere the shape differs, and why:\n")
    write("- Figures 9 and 11 fall to 1 and below in the paper's top left (few processes, much data), because its two phases run one "
          "after the other. Ours are pipelined through both levels and use all NICs, where a flat ring uses one of four: the "
          "factor stays near the four NICs, or what the links inside a host allow.")
    write("- Figure 11 of the paper reaches 168. Part of that is RCCL's copies of overflow lists, which no model of latency and "
          "bandwidth shows; this page shows only the rest.")
    write("- Figure 6: halving wins at the bottom right, as in the paper. At the top left the paper's ring wins because a halving "
          "step's sums do not overlap with its transfers; here they do, and both are at the NICs' bound (factor 1).")
    write("- AllReduce: the paper's NCCL uses double trees on Perlmutter and is equal; the flat ring here is not, so our factors "
          "are larger.")


def blink(sccl, write, picture_path):
    """Figure 22b: AllReduce of 100 MB, 3 + 5 devices of two DGX-1V. Hosts have as many NICs as devices."""
    families = {"levels": "levels", "three-phase": "three-phase", "packed trees": "trees"}
    rates = (40, 100, 160, 220, 280, 340, 400)
    lines = {name: [] for name in families}
    write("\n## Blink's Figure 22b: AllReduce of 100 MB on 3 + 5 devices of two DGX-1V\n")
    write("GB/s of the buffer over Gbit/s of the slower host's network (three NICs of a third each; the other host has five). NCCL "
          "is bound by PCIe of some 10 GB/s on each host: at most 10 x 8 / (2 x 7) = 5.7 GB/s in its ring. The fastest is simulated; "
          "others may stand with their closed form, which counts their waits longer.\n")
    write("| Gbit/s | " + " | ".join(families) + " | NCCL's ring |\n|---|" + "---|" * (len(families) + 1))
    for gbits in rates:
        answer, _ = planned(sccl, ["--topo", "2*dgx1v", "--devices", "1,2,3,8,9,10,11,15", "--nic-gbps", f"{gbits / 3:.3f}", "--collective",
                                   "allreduce", "--bytes", str(100 * MB)])
        row = []
        for name, prefix in families.items():
            us = min(one["time_us"] for one in answer["candidates"] if one["algo"].startswith(prefix))
            lines[name].append(100 * MB / us / 1e3)
            row.append(f"{lines[name][-1]:.2f}")
        write(f"| {gbits} | " + " | ".join(row) + f" | {min(10, gbits / 8) * 8 / 14:.2f} |")
    lines["NCCL's ring"] = [min(10, gbits / 8) * 8 / 14 for gbits in rates]
    highest = max(max(values) for values in lines.values())
    x = lambda gbits: 60 + (gbits - 40) / 360 * 460
    y = lambda rate: 300 - rate / highest * 260
    parts = ['<text x="60" y="16">AllReduce of 100 MB, 3 + 5 of DGX-1V: GB/s over the network\'s Gbit/s</text>']
    for gbits in rates:
        parts.append(f'<text x="{x(gbits):.0f}" y="320" text-anchor="middle">{gbits}</text>')
    for step in range(5):
        rate = highest * step / 4
        parts.append(f'<text x="52" y="{y(rate) + 4:.0f}" text-anchor="end">{rate:.0f}</text>')
    for (name, values), color in zip(lines.items(), ("#4477aa", "#228833", "#ccbb44", "#ee6677")):
        points = " ".join(f"{x(gbits):.1f},{y(rate):.1f}" for gbits, rate in zip(rates, values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        parts.append(f'<text x="526" y="{y(values[-1]) + 4:.0f}" fill="{color}">{name}</text>')
    with open(picture_path("figure22b"), "w") as file:
        file.write(svg(620, 335, parts))
    write("\n![Figure 22b](scale_figure22b.svg)")


def over_ranks_picture(points, path):
    """A panel for each size: our time, flat ring, flat recursive, two phases, bound."""
    names = ("levels", "flat ring", "flat recursive", "two phases", "bound")
    colors = ("#4477aa", "#ee6677", "#ccbb44", "#228833", "#000000")
    width, height = 300, 300
    parts = []
    for panel, mib in enumerate(points):
        left = panel * width
        x = lambda ranks: left + 50 + (math.log2(ranks) - 5) / 9 * (width - 70)
        y = lambda us: 30 + (5.4 - math.log10(us)) / 3.4 * (height - 60)
        parts.append(f'<text x="{left + 50}" y="18">AllGather, {mib} MiB on dgx-a100</text>')
        for power in (2, 3, 4, 5):
            parts.append(f'<text x="{left + 4}" y="{y(10 ** power):.0f}">{10 ** power} us</text>')
        for ranks in (32, 512, 16384):
            parts.append(f'<text x="{x(ranks):.0f}" y="{height - 8}" text-anchor="middle">{ranks}</text>')
        for column, color in enumerate(colors):
            line = " ".join(f"{x(one[0]):.1f},{y(one[column + 1]):.1f}" for one in points[mib])
            dash = ' stroke-dasharray="2 3"' if names[column] == "bound" else ""
            parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"{dash}/>')
    for column, (name, color) in enumerate(zip(names, colors)):
        parts.append(f'<text x="{60 + column * 110}" y="{height + 14}" fill="{color}">{name}</text>')
    with open(path, "w") as file:
        file.write(svg(width * len(points), height + 22, parts))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sccl", required=True)
    parser.add_argument("--out", default="docs/results/scale.md")
    options = parser.parse_args()
    picture_path = lambda name: os.path.join(os.path.dirname(options.out), f"scale{'_' + name if name else ''}.svg")
    lines = ["# Schedules of thousands of ranks", "",
             "`bench/scale/scale.py --sccl build/release/src/tools/sccl --out docs/results/scale.md` on "
             f"{platform.machine()}; nothing here was run on a cluster.", "",
             "What is predicted, on `A*PRESET`: a NIC of 100 Gbit/s for every device, 5 us between hosts. Up to 32 ranks it is a "
             "simulation; with more a simulation of one host that stands for all (`src/schedule/host_share.h`) where all do alike, "
             "which is most of AllGather, ReduceScatter and AllReduce; else a simulation of all ranks, or of a part of long data, where "
             "that takes no long time (`src/portfolio/clusters/ranked.h`), which is up to some 128 ranks; else the closed form "
             "(`src/compose/cost/cost.h`). The bound is the greatest of `sccl plan --bound`: "
             "cuts around ranks, parts of hosts and hosts, runs of neighbouring switches, several parts at once, all NICs "
             "together, the way to the farthest device with all latencies, NICs with the latencies behind them.", "",
             "What falls short is in the list below the second table. mi250x at 64 MiB: steps of 2 us on hosts beside 200 to 335 us. Where "
             "links on hosts are as busy as NICs (z52, z52-full), chunks wait for one another. AllGather, ReduceScatter and AllReduce on more "
             "than 32 ranks therefore take their steps from time where hosts do alike: one host's order is that of all "
             "(`src/compose/form/alike.cc`, names that end in -by-time). Where nothing is simulated the closed form tells of waiting, by "
             "terms that were fitted to simulations of 64 and 128 ranks; a table below sets both beside one another. "
             "pcie8 is planned as two islands, the devices of each socket (`src/topology/symmetry/islands.h`). An AllReduce on hundreds of "
             "ranks has root hosts some places apart, or goes by trees of hosts with few roots, so that its chunks are longer. "
             "Of 1 and 8 MiB all this tells less; [how much longer what it chooses takes than the best](scale_chosen.md) is on a page of "
             "its own. What returns to the root's host in a Broadcast or Reduce waits, too. "
             "Gather and Scatter on hosts without a switch: the last way on the root's host is by shortest paths.", "",
             "![time over ranks](scale.svg)", ""]
    points = {}
    with tempfile.TemporaryDirectory() as folder:
        over_ranks(options.sccl, lines.append, points)
        against_bound(options.sccl, lines.append)
        simulated(options.sccl, lines.append)
        own_topologies(options.sccl, lines.append, folder)
        joined_unevenly(options.sccl, lines.append, folder)
        some_nics(options.sccl, lines.append, folder)
        short(options.sccl, lines.append)
        seconds(options.sccl, lines.append)
        heat_maps(options.sccl, lines.append, folder, picture_path)
        blink(options.sccl, lines.append, picture_path)
    over_ranks_picture(points, picture_path(""))
    with open(options.out, "w") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
