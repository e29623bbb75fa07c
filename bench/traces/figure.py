"""Draws one call of a merged trace as a figure: above, what was foreseen, below, what the ranks did. Each part has its own
axis of time, because what is foreseen knows nothing of other programs. Usage: figure.py MERGED.json CALL OUT.svg

MERGED.json comes from `sccl trace merge ... --foreseen ... --call CALL`."""
import json
import sys
from html import escape

WIDTH, LEFT, ROW, GAP = 900, 190, 18, 6
COLOURS = {"foreseen": "#cfd8dc", "transfer": "#1e88e5", "call": "#cfd8dc", "wait": "#f4511e", "slice": "#43a047"}
MEANINGS = (("call", "the call"), ("transfer", "a transfer is foreseen"), ("wait", "waits for other ranks"), ("slice", "works on a slice"))


def rows_of(events, categories, begin, end):
    """The tracks that have such slices in the span, with their slices."""
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    rows = {}
    for event in events:
        if event.get("cat") in categories and event["ts"] < end and event["ts"] + event["dur"] > begin:
            rows.setdefault((event["pid"], event["tid"]), []).append(event)
    title = lambda key: names[key] if names[key].startswith("rank") else processes[key[0]].split(" (")[0] + ", " + names[key]
    return [(title(key), rows[key]) for key in sorted(rows)]


def axis_step(span):
    step = 1.0
    while span / step > 8:
        step *= 2 if str(step)[0] == "1" else 2.5 if str(step)[0] == "2" else 2
    return step


def part(title, rows, begin, end, top):
    """The lines of SVG of one part, and where it ends."""
    scale = (WIDTH - LEFT - 10) / (end - begin)
    out = [f'<text x="4" y="{top + 12}" font-weight="bold">{escape(title)}</text>']
    y = top + 20
    for name, slices in rows:
        out.append(f'<text x="4" y="{y + 12}">{escape(name)}</text>')
        for event in sorted(slices, key=lambda event: -event["dur"]):
            left, right = max(event["ts"], begin), min(event["ts"] + event["dur"], end)
            inset = 0 if event["cat"] in ("call", "foreseen") else 3
            out.append(f'<rect x="{LEFT + (left - begin) * scale:.1f}" y="{y + inset}" width="{max(0.4, (right - left) * scale):.1f}" '
                       f'height="{ROW - 4 - 2 * inset}" fill="{COLOURS[event["cat"]]}"><title>{escape(event["name"])}, {event["dur"]:.1f} us</title></rect>')
        y += ROW
    step, tick = axis_step(end - begin), 0.0
    while tick <= end - begin:
        x = LEFT + tick * scale
        out.append(f'<path d="M{x:.1f} {top + 18}V{y}" stroke="#90a4ae" stroke-width="0.5"/><text x="{x:.1f}" y="{y + 11}" text-anchor="middle">{tick:g} us</text>')
        tick += step
    return out, y + 18 + GAP


def main(path, number, out):
    with open(path) as file:
        events = json.load(file)
    calls = [event for event in events if event.get("cat") == "call" and event["args"].get("number") == number]
    foreseen = [event for event in events if event.get("cat") == "foreseen"]
    if not calls or not foreseen:
        sys.exit(f"{path}: no call {number}, or nothing foreseen: merge with --foreseen FILE --call {number}")
    # What belongs to other calls is left out.
    spans = {event["pid"]: (event["ts"], event["ts"] + event["dur"]) for event in calls}
    within = lambda event: event["pid"] in spans and spans[event["pid"]][0] <= event["ts"] and event["ts"] + event["dur"] <= spans[event["pid"]][1] + 0.001
    measured = [event for event in events if event.get("cat") in (None, "call", "wait", "slice") and (event["ph"] == "M" or within(event))]
    begin, end = min(event["ts"] for event in calls), max(event["ts"] + event["dur"] for event in calls)
    start, stop = foreseen[0]["ts"], foreseen[0]["ts"] + foreseen[0]["dur"]
    lines, y = part(f"foreseen: {foreseen[0]['name']}", rows_of(events, ("transfer",), start, stop), start, stop, 4)
    schedule = calls[0]["args"]["schedule"]
    more, y = part(f"measured: {calls[0]['name']} by {schedule}: {end - begin:.1f} us", rows_of(measured, ("call", "wait", "slice"), begin, end), begin, end, y)
    for i, (category, meaning) in enumerate(MEANINGS):
        more.append(f'<rect x="{LEFT + i * 170}" y="{y}" width="12" height="12" fill="{COLOURS[category]}"/><text x="{LEFT + i * 170 + 16}" y="{y + 10}">{meaning}</text>')
    with open(out, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 20}" font-family="sans-serif" font-size="10">\n'
                   f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(lines + more) + "\n</svg>\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
