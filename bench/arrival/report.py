#!/usr/bin/env python3
"""Tables and a plot of what arrival_bench measured.

usage: report.py [--svg FILE] LINES...

LINES: files of JSON lines of arrival_bench. Prints Markdown: a table for each pattern, geometric means of the ratios to
"never", and with the form "bound" how much shorter tails can be. Files of MPI are openmpi.json and mpich.json; their ratios are to
"never" in the same processes, which stands in the table only where no other file has it.
"""
import argparse
import json
import math
import pathlib

COLOURS = {"never": "#888888", "auto": "#ff7f0e", "eager": "#1f77b4", "leader": "#2ca02c", "chain": "#d62728", "bound": "#000000",
           "openmpi": "#9467bd", "mpich": "#8c564b"}
PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP = 300, 220, 50, 40


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1024 else f"{size} B"


def late_text(pattern):
    if pattern.startswith("row"):
        return "nobody, calls in a row"
    return "nobody" if pattern.startswith("none") else pattern


def read(paths):
    """{(collective, pattern): {bytes: {form: line}}}; of several hosts: "allreduce, 2 hosts"."""
    found = {}
    for path in paths:
        name = pathlib.Path(path).stem
        for line in open(path, encoding="utf-8"):
            if not line.startswith("{"):
                continue
            one = json.loads(line)
            hosts = one.get("hosts", 1)
            collective = one["collective"] + (f", {hosts} hosts" if hosts > 1 else "")
            by_form = found.setdefault((collective, one["pattern"]), {}).setdefault(one["bytes"], {})
            if name not in ("openmpi", "mpich"):
                by_form[one["form"]] = one
            elif one["form"] == "mpi":
                by_form[name] = one
            else:
                by_form.setdefault("never", one)
    return found


def forms_of(results):
    seen = {form for sizes in results.values() for forms in sizes.values() for form in forms}
    return [form for form in COLOURS if form in seen]


def tables(results):
    forms = forms_of(results)
    others = [form for form in forms if form != "never"]
    for (collective, pattern), sizes in results.items():
        print(f"\n### {collective}, late: {late_text(pattern)}\n")
        print("| bytes | one message, us | never, us | " + " | ".join(f"{form} (ratio, quartiles)" for form in others) + " |")
        print("|---" * (3 + len(others)) + "|")
        for size, by_form in sorted(sizes.items()):
            cells = []
            for form in others:
                one = by_form.get(form)
                low, high = one["quartiles"] if one else (0, 0)
                cells.append(f"{one['tail_us']:.0f} ({one['tail_ratio']:.2f}, {low:.2f} to {high:.2f})" if one else "")
            never = by_form["never"]
            print(f"| {size_text(size)} | {never['message_us']:.1f} | {never['tail_us']:.0f} | " + " | ".join(cells) + " |")


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def means(results):
    forms = [form for form in forms_of(results) if form != "never"]
    print("\n### Geometric means of the ratios to `never`\n")
    print("| collective | late | " + " | ".join(forms) + " |")
    print("|---" * (2 + len(forms)) + "|")
    for (collective, pattern), sizes in results.items():
        ratios = [[by[form]["tail_ratio"] for by in sizes.values() if form in by] for form in forms]
        print(f"| {collective} | {late_text(pattern)} | " + " | ".join(f"{mean(r):.2f}" if r else "" for r in ratios) + " |")


def asked_percent(form, pattern, size):
    """Of the tail of "never", as was aimed at; None: nothing was asked."""
    if pattern.startswith("one") and size >= 65536 and form != "eager":
        return 50
    return {"eager": 25, "leader": 35, "chain": 35}.get(form) if pattern.startswith(("mif", "one")) else None


def shares(results):
    names = [form for form in ("never", "eager", "leader", "chain") if form in forms_of(results)]
    if "bound" not in forms_of(results):
        return
    print("\n### Tail of the bound, as a share of a form's\n")
    print("| collective | late | bytes | " + " | ".join(names) + " |")
    print("|---" * (3 + len(names)) + "|")
    for (collective, pattern), sizes in results.items():
        for size, by in sorted(sizes.items()):
            if "bound" in by:
                cells = [f"{100 * by['bound']['tail_us'] / by[form]['tail_us']:.0f} %" if form in by else "" for form in names]
                print(f"| {collective} | {late_text(pattern)} | {size_text(size)} | " + " | ".join(cells) + " |")


def possible(results):
    """A row for each size: what was asked for, what was reached, and what the bound of the same run leaves."""
    forms = [form for form in forms_of(results) if form in ("eager", "leader", "chain")]
    if not forms or "bound" not in forms_of(results):
        return
    print("\n### Shorter tails: reached and asked, and what is possible\n")
    print("In % of the tail of `never`. Possible: the bound. A form that reaches less than was asked shows what was asked; in")
    print("brackets where the bound itself does not reach that.\n")
    print("| collective | late | bytes | possible | " + " | ".join(forms) + " |")
    print("|---" * (4 + len(forms)) + "|")
    for (collective, pattern), sizes in results.items():
        for size, by in sorted(sizes.items()):
            if "bound" not in by:
                continue
            limit = 100 * (1 - by["bound"]["tail_ratio"])
            cells = []
            for form in forms:
                if form not in by:
                    cells.append("")
                    continue
                reached = 100 * (1 - by[form]["tail_ratio"])
                asked = asked_percent(form, pattern, size)
                missed = asked is not None and reached < asked
                note = "" if not missed else f" (of {asked})" if limit < asked else f" of {asked}"
                cells.append(f"{reached:.0f}{note}")
            print(f"| {collective} | {late_text(pattern)} | {size_text(size)} | {limit:.0f} | " + " | ".join(cells) + " |")


def panel(x, y, title, sizes, forms):
    """Tail over size, both logarithmic, as in the paper's figures 7 and 8."""
    order = sorted(sizes)
    tails = [one["tail_us"] for by in sizes.values() for one in by.values()]
    low, high = math.floor(math.log10(min(tails))), math.ceil(math.log10(max(tails)))
    x_of = lambda size: x + PANEL_WIDTH * (math.log2(size / order[0]) / max(math.log2(order[-1] / order[0]), 1))
    y_of = lambda us: y + PANEL_HEIGHT * (1 - (math.log10(us) - low) / (high - low))
    parts = [f'<text x="{x + PANEL_WIDTH / 2}" y="{y - 8}" text-anchor="middle" font-weight="bold">{title}</text>',
             f'<rect x="{x}" y="{y}" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}" fill="none" stroke="#444"/>']
    for power in range(low, high + 1):
        at = y_of(10 ** power)
        parts.append(f'<line x1="{x}" x2="{x + PANEL_WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 5}" y="{at + 4:.1f}" text-anchor="end">{10 ** power}</text>')
    for size in order:
        parts.append(f'<text x="{x_of(size):.1f}" y="{y + PANEL_HEIGHT + 14}" text-anchor="middle" font-size="9">'
                     f'{size_text(size)}</text>')
    for form in forms:
        points = [(x_of(size), y_of(sizes[size][form]["tail_us"])) for size in order if form in sizes[size]]
        if points:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            dash = ' stroke-dasharray="4 3"' if form == "bound" else ""
            parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[form]}" stroke-width="1.8"{dash}/>')
    return parts


def picture(results):
    chosen = {key: sizes for key, sizes in results.items() if key[0] == "allreduce" and len(sizes) > 1}
    forms = forms_of(chosen)
    columns = min(3, len(chosen))
    rows = -(-len(chosen) // columns)
    width = columns * (PANEL_WIDTH + LEFT + 20)
    height = rows * (PANEL_HEIGHT + TOP + 30) + 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
             f'font-size="11"><rect width="100%" height="100%" fill="white"/>']
    for number, ((_, pattern), sizes) in enumerate(chosen.items()):
        x = LEFT + number % columns * (PANEL_WIDTH + LEFT + 20)
        y = TOP + number // columns * (PANEL_HEIGHT + TOP + 30)
        parts += panel(x, y, f"late: {late_text(pattern)}; last arrival to last exit, us", sizes, forms)
    for number, form in enumerate(forms):
        x, y = LEFT + number * 90, height - 18
        parts.append(f'<line x1="{x}" x2="{x + 22}" y1="{y}" y2="{y}" stroke="{COLOURS[form]}" stroke-width="2.5"/>')
        parts.append(f'<text x="{x + 27}" y="{y + 4}">{form}</text>')
    return "\n".join(parts + ["</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--svg")
    parser.add_argument("lines", nargs="+")
    arguments = parser.parse_args()
    results = read(arguments.lines)
    means(results)
    possible(results)
    shares(results)
    tables(results)
    if arguments.svg:
        pathlib.Path(arguments.svg).write_text(picture(results), encoding="utf-8")


if __name__ == "__main__":
    main()
