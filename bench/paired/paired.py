"""Settings against one another on this host, by bench_paired: all in the same processes, in turn, in short blocks."""
import statistics
import subprocess
from collections import defaultdict


def measure(build, collective, ranks, sizes, settings, rounds, block_us=1500):
    """By size and label the microseconds of every round's block. `settings`: by label, the environment of its communicator,
    which tunes nothing unless told to."""
    labels = list(settings)
    command = [str(build / "bench/bench_paired"), collective, str(ranks), str(rounds), str(block_us), ",".join(map(str, sizes)),
               *(" ".join(f"{name}={value}" for name, value in {"SCCL_TUNE": "off", **settings[label]}.items()) for label in labels)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = defaultdict(lambda: {label: [] for label in labels})
    for line in text.splitlines():
        size, _, index, us = line.split(",")
        found[int(size)][labels[int(index)]].append(float(us))
    return dict(found)


def ratio(numerator, denominator):
    """The median over the rounds of one label's time by another's."""
    return statistics.median(a / b for a, b in zip(numerator, denominator))


def relative(blocks):
    """By label the median over the rounds of its time by the round's median: who is fastest has the least."""
    middles = [statistics.median(of_round) for of_round in zip(*blocks.values())]
    return {label: statistics.median(us / middle for us, middle in zip(of_label, middles)) for label, of_label in blocks.items()}
