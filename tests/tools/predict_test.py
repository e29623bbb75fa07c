"""The arithmetic of bench/predict: intervals and orders, and figures recovered from times that follow them."""
import sys

sys.path.insert(0, sys.argv[1])
import model
import order


def close(a, b, tolerance=1e-6):
    return abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-12)


def test_interval():
    assert order.interval(range(15)) == (3, 11), order.interval(range(15))  # 96.5 %
    assert order.interval(range(6)) == (0, 5)  # 96.9 %
    assert order.interval([3, 1, 2]) == (1, 3)  # too few to tell


def test_order():
    alike, surely, much = (0.97, 1.2), (1.07, 1.09), (1.2, 1.4)
    for ratio, wrong in ((0.5, False), (1, False), (2, False)):
        assert order.pair_is_wrong(*alike, ratio) == wrong
    for ratio, wrong in ((0.8, True), (1, False), (2, False)):
        assert order.pair_is_wrong(*surely, ratio) == wrong
    for ratio, wrong in ((0.8, True), (1, True), (1.2, False)):
        assert order.pair_is_wrong(*much, ratio) == wrong
        assert order.pair_is_wrong(1 / much[1], 1 / much[0], 1 / ratio) == wrong
    verdict = order.judge({"a": [10] * 8, "b": [12] * 8, "c": [12] * 8}, {"a": 9, "b": 11, "c": 11})
    assert verdict.right and verdict.told and verdict.loss == 0
    verdict = order.judge({"a": [10] * 8, "b": [12] * 8}, {"a": 11, "b": 9})
    assert not verdict.right and close(verdict.loss, 0.2)


def test_figures():
    read, write, slot, call, alpha, op, switch = 0.05, 0.08, 0.3, 0.4, 0.6, 0.1, 2.0
    sizes = [65536, 262144, 1048576]
    few = {"call": call, "sendrecv": 1.0, "reduce_scatter": call + alpha + 2 * op, "alltoall": call + alpha + 3 * op}
    simulated = {"reduce_scatter": 5, "alltoall": 9}  # switches of these calls, in a simulator that counts nothing else
    for name in ("crowded4", "crowded8"):
        one = model.CALLS[name]
        few[name] = call * one.ranks / 2 + switch * simulated[one.collective]
    times = {("model", name): [us] * 3 for name, us in few.items()}
    for size in sizes:
        whole = read + slot + write
        for name, ns in (("sendrecv", whole), ("alltoall", (read + write + whole) / 2), ("reduce_scatter", (read + whole) / 2)):
            times["model", name, size] = [few[name] + 1e-3 * ns * size] * 3
    figures = model.Figures(times, sizes, lambda *parts: parts,
                            lambda one, values: values["switch_us"] * simulated[one.collective], 2)
    assert close(figures.alpha_us, alpha) and close(figures.op_us, op) and close(figures.call_us, call)
    assert close(figures.switch_us, switch, 1e-2), figures.switch_us
    for planner in ("ring", "one-hop", "recursive"):
        found = figures.for_call("all_reduce", planner, 8, 262144, 2)
        assert found["cores"] == 2 and close(found["read_own_ns"], read) and close(found["write_own_ns"], write)
        assert close(found["read_slot_ns"] + found["write_slot_ns"], slot)


def test_footprint():
    # Seven connections in both directions take more than a ring's one.
    assert model.footprint_of("all_gather", "one-hop", 8, 1 << 20) - model.footprint_of("all_gather", "ring", 8, 1 << 20) == \
        12 * 4 * (128 << 10)


for test in (test_interval, test_order, test_figures, test_footprint):
    test()
print("bench/predict calculates rightly")
