"""docs/results/scale.md: what sccl plan foresees on clusters of 32 to 16384 ranks, beside flat schedules and the bound.

Usage: scale.py --sccl COMMAND [--out FILE] [--svg FILE]
Flat ring, flat recursive doubling and the two-phase form of PCCL are closed forms over the same figures of NICs and
latencies; all else is what `sccl plan --bound --json` prints.
"""
import argparse
import json
import math
import platform
import subprocess
import time

MIB = 1 << 20
NETWORK_ALPHA_US = 5.0   # as in A*PRESET
NIC_BYTES_PER_US = 12.5e3
PRESETS = ["dgx-a100", "dgx-h100", "dgx2", "dgx1v", "dgx1p", "mi250x", "mi300x", "z52", "pcie4", "pcie8", "nvpairs4"]
COLLECTIVES = ["allgather", "reducescatter", "allreduce", "broadcast", "alltoall"]
SHARE = {"allgather"}    # --bytes is one rank's part of the result


def plan(sccl, topology, collective, result_bytes, ranks):
    buffer = max(1, result_bytes // ranks) if collective in SHARE else result_bytes
    begin = time.monotonic()
    done = subprocess.run([sccl, "plan", "--topo", topology, "--collective", collective, "--bytes", str(buffer), "--bound",
                           "--json"], check=True, capture_output=True, text=True)
    answer = json.loads(done.stdout)
    best = answer["candidates"][0]
    return best["algo"], best["time_us"], best["bound_us"], time.monotonic() - begin


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
            points.setdefault(mib, []).append((ranks, us, ring, bound))
            write(f"| {mib} | {ranks} | {us:.0f} | {algo} | {ring:.0f} | {flat_recursive_us(ranks, mib * MIB):.0f} | "
                  f"{two_phase_us(ranks, 8, mib * MIB, 300e3):.0f} | {bound:.0f} |")


def against_bound(sccl, write):
    write("\n## Predicted time over the bound, 64 MiB on every rank\n")
    write("| cluster | " + " | ".join(COLLECTIVES) + " |\n|---|" + "---|" * len(COLLECTIVES))
    for preset in PRESETS:
        for hosts in (64, 256):
            ranks = hosts * ranks_of(preset)
            row = [plan(sccl, f"{hosts}*{preset}", one, 64 * MIB, ranks) for one in COLLECTIVES]
            write(f"| {hosts}*{preset} | " + " | ".join(f"{us / bound:.2f}" for _, us, bound, _ in row) + " |")


def seconds(sccl, write):
    write("\n## Time to plan\n\nSeconds, of the slowest of five collectives; 64 MiB.\n\n| cluster | ranks | s |\n|---|---|---|")
    for topology, ranks in (("16*dgx-a100", 128), ("256*dgx-a100", 2048), ("256*mi250x", 4096), ("2048*dgx-a100", 16384)):
        slowest = max(plan(sccl, topology, one, 64 * MIB, ranks)[3] for one in COLLECTIVES)
        write(f"| {topology} | {ranks} | {slowest:.2f} |")


def short(sccl, write):
    write("\n## AllReduce of 1 KiB\n\nus, and 1.5 x (ceil(log2 hosts) network latencies of 5 us + 4 of 2 us on a host).\n")
    write("| hosts of dgx-a100 | schedule | predicted | limit |\n|---|---|---|---|")
    for hosts in (3, 5, 8, 16, 64, 100, 256, 2048):
        algo, us, _, _ = plan(sccl, f"{hosts}*dgx-a100", "allreduce", 1024, 8)
        limit = 1.5 * (math.ceil(math.log2(hosts)) * 5 + 4 * 2)
        write(f"| {hosts} | {algo} | {us:.1f} | {limit:.1f} |")


def picture(points, path):
    width, height, left, top = 640, 400, 60, 20
    x = lambda ranks: left + (math.log2(ranks) - 5) / 9 * (width - left - 20)
    y = lambda us: top + (5.5 - math.log10(us)) / 3.5 * (height - top - 40)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for power in (2, 3, 4, 5):
        parts.append(f'<text x="5" y="{y(10 ** power):.0f}">{10 ** power} us</text>')
    for ranks in (32, 128, 512, 2048, 16384):
        parts.append(f'<text x="{x(ranks):.0f}" y="{height - 10}" text-anchor="middle">{ranks}</text>')
    for mib, color in zip(points, ("#4477aa", "#228833", "#ccbb44", "#ee6677")):
        for column, dash in ((1, ""), (2, "6 4"), (3, "1 3")):
            line = " ".join(f"{x(one[0]):.1f},{y(one[column]):.1f}" for one in points[mib])
            parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5" stroke-dasharray="{dash}"/>')
        parts.append(f'<text x="{x(points[mib][0][0]) + 4:.0f}" y="{y(points[mib][0][1]) - 4:.0f}" fill="{color}">{mib} MiB</text>')
    parts.append(f'<text x="{left + 60}" y="{top}">AllGather on dgx-a100 over ranks: levels (line), flat ring (dashes), bound (dots)</text></svg>')
    with open(path, "w") as file:
        file.write("\n".join(parts) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sccl", required=True)
    parser.add_argument("--out")
    parser.add_argument("--svg")
    options = parser.parse_args()
    lines = ["# Schedules of thousands of ranks", "",
             "`bench/scale/scale.py --sccl build/release/src/tools/sccl --out docs/results/scale.md --svg "
             f"docs/results/scale.svg` on {platform.machine()}; nothing here was run on a cluster.", "",
             "What is predicted is the closed form of composites (`src/compose/cost.h`) on `A*PRESET`: a NIC of 100 Gbit/s for "
             "every device, 5 us between hosts. The bound is the greatest of `sccl plan --bound`: cuts around ranks, parts of "
             "hosts and hosts, all NICs together, latency.", "",
             "What falls short: above 1.10 lie hosts whose own links are the bottleneck or whose trees are deep. pcie8 would have "
             "to bring part of the data into both sockets over the network; mi250x pays 14 steps on a host; a Broadcast "
             "enters every device of a host over its links while the cuts count its NIC, too.", "", "![time over ranks](scale.svg)", ""]
    points = {}
    over_ranks(options.sccl, lines.append, points)
    against_bound(options.sccl, lines.append)
    short(options.sccl, lines.append)
    seconds(options.sccl, lines.append)
    text = "\n".join(lines) + "\n"
    if options.out:
        with open(options.out, "w") as file:
            file.write(text)
    else:
        print(text, end="")
    if options.svg:
        picture(points, options.svg)


main()
