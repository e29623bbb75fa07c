"""The figures of `sccl simulate --cores`, from calls that are not predicted.

Between two ranks, per byte of the larger buffer, with own reads r and writes w, and s for a slot written and read again:
  sendrecv        each fills slots and empties slots             r + s + w
  alltoall        half stays (r + w), half goes                  (r + w + r + s + w) / 2
  reduce_scatter  half goes, half is added to the own            (r + s + r + w) / 2
A written slot is always read once, so only the sum of both matters. What a few bytes take is subtracted from each. What a
yield takes is found by simulating small calls of more ranks than cores, until they take as long as measured.
"""
import math
import statistics
from dataclasses import dataclass

SLOTS, SLOT_BYTES = 4, 128 << 10  # of a connection; the library's defaults


@dataclass
class Call:
    collective: str
    ranks: int = 2
    size: int = 8
    algorithm: str = None


CALLS = {"call": Call("broadcast", 1), "sendrecv": Call("sendrecv"), "alltoall": Call("alltoall"),
         "reduce_scatter": Call("reduce_scatter", size=16, algorithm="ring"),
         "crowded4": Call("reduce_scatter", 4, 256, "ring"), "crowded8": Call("alltoall", 8, 512, "one-hop")}
SIZED_CALLS = {"sendrecv": Call("sendrecv"), "alltoall": Call("alltoall"),
               "reduce_scatter": Call("reduce_scatter", algorithm="ring")}


def own_part(ns):
    """(r + w) / (r + s + w)"""
    return min(max(2 * ns["alltoall"] / ns["sendrecv"] - 1, 0.2), 0.8)


def read_part(ns):
    """r / (r + s + w)"""
    return min(max(2 * ns["reduce_scatter"] / ns["sendrecv"] - 1, 0.05), 0.7 * own_part(ns))


def beside(shares, size):
    """Differences of two measurements: the median of three neighbouring sizes scatters less."""
    sizes = list(shares)
    first = max(0, min(sizes.index(size) - 1, len(sizes) - 3))
    return statistics.median(shares[one] for one in sizes[first:first + 3])


def footprint(buffer_bytes, connections, message_bytes):
    """What a rank touches call after call: its buffers, and the slots of its connections in both directions."""
    return buffer_bytes + connections * SLOTS * min(SLOT_BYTES, message_bytes)


def footprint_of(collective, planner, ranks, size):
    gathers = collective == "all_gather"
    buffers = size + size / ranks if gathers or collective == "reduce_scatter" else 2 * size
    if planner == "recursive":
        return footprint(buffers, 2 * math.ceil(math.log2(ranks)), size / ranks if gathers else size)
    return footprint(buffers, 2 if planner == "ring" else 2 * (ranks - 1), size / ranks)


class Figures:
    def __init__(self, times, sizes, key, simulate, cores):
        """`simulate(call, figures)`: microseconds of a Call."""
        few = {name: statistics.median(times[key("model", name)]) for name in CALLS}
        self.call_us = few["call"]
        # An alltoall has one operation more.
        self.op_us = min(max(few["alltoall"] - few["reduce_scatter"], 0.05), 0.5)
        self.alpha_us = max(few["reduce_scatter"] - self.call_us - 2 * self.op_us, 0.1)
        ns = {size: {name: 1e3 * max(statistics.median(times[key("model", name, size)]) - few[name], 0.01) / size
                     for name in SIZED_CALLS} for size in sizes}
        own, read = ({size: part(ns[size]) for size in sizes} for part in (own_part, read_part))
        self.rates = {}
        for size in sizes:
            whole, own_share, read_share = ns[size]["sendrecv"], beside(own, size), beside(read, size)
            slot = whole * (1 - own_share) / 2
            self.rates[size] = {"read_own_ns": whole * read_share, "write_own_ns": whole * (own_share - read_share),
                                "read_slot_ns": slot, "write_slot_ns": slot}

        self.switch_us = 0
        crowded = [name for name in ("crowded4", "crowded8") if CALLS[name].ranks > cores]
        found = [self.solved_switch(CALLS[name], few[name], simulate, cores) for name in crowded]
        self.switch_us = statistics.geometric_mean(found) if found else 0

    def solved_switch(self, call, measured_us, simulate, cores):
        low, high = 0.05, 100.0  # of a yield nothing else is plausible
        for _ in range(12):
            middle = math.sqrt(low * high)
            figures = {**self.for_call(call.collective, call.algorithm, call.ranks, call.size, cores), "switch_us": middle}
            if self.entry_us(call.ranks, cores) + simulate(call, figures) < measured_us:
                low = middle
            else:
                high = middle
        return math.sqrt(low * high)

    def entry_us(self, ranks, cores):
        """Into the library and out of it, one rank of a core after another."""
        return self.call_us * math.ceil(ranks / min(cores, ranks))

    def rates_at(self, touched):
        """Between the sizes that were measured, by what a core touches: that decides which cache holds it."""
        known = [(footprint(2 * size, 2, size), rates) for size, rates in self.rates.items()]
        above = next((i for i, (one, _) in enumerate(known) if one >= touched), len(known) - 1)
        below = max(0, above - 1)
        (low, low_rates), (high, high_rates) = known[below], known[above]
        share = 0 if low == high else min(max(math.log(touched / low) / math.log(high / low), 0), 1)
        return {name: low_rates[name] * (high_rates[name] / low_rates[name]) ** share for name in low_rates}

    def for_call(self, collective, planner, ranks, size, cores):
        used = min(cores, ranks)
        touched = footprint_of(collective, planner, ranks, size) * math.ceil(ranks / used)
        return {"cores": used, "alpha_us": self.alpha_us, "op_us": self.op_us, "switch_us": self.switch_us,
                **self.rates_at(touched)}

    def table(self, size_text):
        yield (f"A call {self.call_us:.2f} us, a message's way {self.alpha_us:.2f} us, an operation {self.op_us:.2f} us, "
               f"a yield {self.switch_us:.2f} us.")
        yield ""
        yield "| bytes | ns per byte: reads its own | writes its own | a slot written and read |"
        yield "|---|---|---|---|"
        for size, rates in self.rates.items():
            yield (f"| {size_text(size)} | {rates['read_own_ns']:.3f} | {rates['write_own_ns']:.3f} | "
                   f"{rates['read_slot_ns'] + rates['write_slot_ns']:.3f} |")
