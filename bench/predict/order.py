"""Did the prediction order the planners rightly? Measured times scatter, so the question is asked of intervals."""
import itertools
import math
import statistics
from dataclasses import dataclass

MATTERS = 0.05  # a measured difference below this is none
ALIKE = 0.10    # predictions closer than this say "alike": the model is no finer ...
MUCH = 0.10     # ... which is wrong when the measured difference is surely more than this

DEFINITION = [
    "A case is a collective, a number of ranks and a size, with all planners that have a schedule for it. Two planners' times "
    "stand beside each other in each repetition; the interval that holds the median of their ratios with 95 % (order statistics, "
    "as in the sign test) tells whether they differ: surely, when all of it lies beyond 5 % on one side of 1. Such a pair is "
    "predicted wrongly when the predicted ratio lies on the other side, or says \"alike\" (within 10 %) while the interval lies "
    "beyond 10 %. A case is in the right order when none of its pairs is predicted wrongly; it can be told when some pair "
    "differs surely, and is marked \"alike\" where none does. What the choice loses is how much longer the planner that is "
    "predicted to be fastest takes than the one that is."]


@dataclass
class Verdict:
    right: bool
    told: bool
    loss: float


def interval(values, confidence=0.95):
    """Of the median: the narrowest pair of order statistics that holds it with this confidence, else the least and the most."""
    ordered = sorted(values)
    n = len(ordered)
    outside = 0.0  # probability that the median lies below the k-th or above the k-th from the end
    best = (ordered[0], ordered[-1])
    for k in range(n // 2):
        outside += 2 * math.comb(n, k) / 2 ** n
        if outside > 1 - confidence:
            break
        best = (ordered[k], ordered[n - 1 - k])
    return best


def pair_is_wrong(low, high, ratio):
    if low <= 1 + MATTERS and high >= 1 / (1 + MATTERS):
        return False
    if high < 1:
        low, high, ratio = 1 / high, 1 / low, 1 / ratio
    if abs(math.log(ratio)) <= math.log(1 + ALIKE):
        return low > 1 + MUCH
    return ratio < 1


def judge(measured, predicted):
    right, told = True, False
    for a, b in itertools.combinations(sorted(measured), 2):
        low, high = interval([x / y for x, y in zip(measured[a], measured[b])])
        told = told or low > 1 + MATTERS or high < 1 / (1 + MATTERS)
        right = right and not pair_is_wrong(low, high, predicted[a] / predicted[b])
    median = {one: statistics.median(times) for one, times in measured.items()}
    chosen = min(predicted, key=predicted.get)
    return Verdict(right, told, median[chosen] / min(median.values()) - 1)
