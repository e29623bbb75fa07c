"""A plot of ratios over sizes, for reports of bench/: one panel for each case, both axes logarithmic, as SVG."""
import math

MIB = 1 << 20
PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, GAP_X, GAP_Y = 250, 120, 62, 66, 26, 44
LEAST_RATIO, MOST_RATIO = 0.5, 32
STYLE = """
  text { font: 12px sans-serif; fill: #222 } .title { font-size: 15px } .panel { font-weight: bold } .tick { font-size: 10px }
  .back { fill: #fff } .grid { stroke: #ddd } .even { stroke: #555; stroke-width: 1.5 } .line { fill: none; stroke-width: 2 }
  .a { stroke: #0068a8 } .b { stroke: #c25a00; stroke-dasharray: 6 3 } .c { stroke: #2f7d32; stroke-dasharray: 2 3 }
  .dot-a { fill: #0068a8 } .dot-b { fill: #c25a00 } .dot-c { fill: #2f7d32 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e6e6 } .back { fill: #14181d } .grid { stroke: #343a42 } .even { stroke: #aaa }
    .a { stroke: #5cb8f0 } .b { stroke: #f5a04c } .c { stroke: #7fd083 } .dot-a { fill: #5cb8f0 } .dot-b { fill: #f5a04c } .dot-c { fill: #7fd083 }
  }"""


def _y_of(top, ratio):
    clipped = min(max(ratio, LEAST_RATIO), MOST_RATIO)
    return top + PANEL_HEIGHT * (1 - math.log2(clipped / LEAST_RATIO) / math.log2(MOST_RATIO / LEAST_RATIO))


def _panel(left, top, title, lines, sizes, labels_ratios):
    low, high = math.log2(sizes[0]), math.log2(max(sizes[-1], 2 * sizes[0]))
    x_of = lambda size: left + PANEL_WIDTH * (math.log2(size) - low) / (high - low)
    yield f'<text class="panel" x="{left}" y="{top - 6}">{title}</text>'
    for ratio in (0.5, 1, 2, 4, 8, 16, 32):
        y = _y_of(top, ratio)
        yield f'<line class="{"even" if ratio == 1 else "grid"}" x1="{left}" x2="{left + PANEL_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        if labels_ratios:
            yield f'<text class="tick" text-anchor="end" x="{left - 6}" y="{y + 3.5:.1f}">{ratio:g}x</text>'
    for size, text in ((16, "16"), (1 << 10, "1K"), (64 << 10, "64K"), (4 * MIB, "4M"), (256 * MIB, "256M")):
        if sizes[0] <= size <= sizes[-1]:
            yield f'<text class="tick" text-anchor="middle" x="{x_of(size):.1f}" y="{top + PANEL_HEIGHT + 14}">{text}</text>'
    for mark, ratios in lines:
        points = [(x_of(size), _y_of(top, ratio)) for size, ratio in sorted(ratios.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline class="line {mark}" points="{path}"/>'
        yield from (f'<circle class="dot-{mark}" cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>' for x, y in points)


def plot(rows, names, note):
    """rows: of panels (title, {name: {bytes: ratio}}); names: those whose lines are drawn, at most three."""
    marks = list(zip("abc", names))
    sizes = sorted({size for row in rows for _, by_name in row for ratios in by_name.values() for size in ratios})
    width = LEFT + max(len(row) for row in rows) * (PANEL_WIDTH + GAP_X)
    height = TOP + len(rows) * (PANEL_HEIGHT + GAP_Y) + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
           f"<style>{STYLE}\n</style>", f'<rect class="back" width="{width}" height="{height}"/>',
           f'<text class="title" x="{LEFT}" y="22">Time of MPI by time of libsccl: above 1x libsccl is faster</text>']
    for at, (mark, name) in enumerate(marks):
        x = LEFT + at * 120
        out.append(f'<line class="line {mark}" x1="{x}" x2="{x + 26}" y1="40" y2="40"/><text x="{x + 32}" y="44">{name}</text>')
    out.append(f'<text class="tick" x="{LEFT + 10 + len(marks) * 120}" y="44">{note}; points at the top lie beyond it</text>')
    for row, panels in enumerate(rows):
        for column, (title, by_name) in enumerate(panels):
            left, top = LEFT + column * (PANEL_WIDTH + GAP_X), TOP + row * (PANEL_HEIGHT + GAP_Y) + 12
            lines = [(mark, by_name.get(name, {})) for mark, name in marks]
            out += _panel(left, top, title, lines, sizes, column == 0)
    return "\n".join(out + ["</svg>"]) + "\n"
