"""Ten machines that share their kernel weights against ten fits, on handwritten digits.

    together   learn(stack, Y): one problem, one set of weights
    apart      learn(stack, Y[:, c]) for every column c

Six views of mfeat with five kernels each, 1,000 rows, gap 1e-3, processor seconds of fits taken in
turns. Columns: each digit against the rest, each pair of digits, and the former as targets of a
regression. "whole" is the time of a fit that makes the kernels, too, against that of scikit-learn's
OneVsRestClassifier(MKLClassifier()).
"""

import time
from itertools import combinations

import numpy as np

import kernelweave as kw
from benchmarks.harness import common

FORMS = {
    "each against the rest, C = 1": ("hinge", "rest", 1.0),
    "each against the rest, C = 10": ("hinge", "rest", 10.0),
    "each pair, C = 1": ("hinge", "pairs", 1.0),
    "squared loss, C = 1": ("squared", "rest", 1.0),
    "ε-insensitive, C = 1": ("epsilon_insensitive", "rest", 1.0),
}


def rows_and_columns(data, n, kind):
    found = common.fetch("mfeat", data)
    rows = np.random.default_rng(0).permutation(len(found.y))[:n]
    digit, kinds = found.y[rows], np.unique(found.y)
    if kind == "rest":
        Y = np.where(digit[:, None] == kinds, 1.0, -1.0)
    else:
        Y = np.stack([1.0 * (digit == a) - (digit == b) for a, b in combinations(kinds, 2)], 1)
    return found.X[rows], digit, Y, kw.KernelBank(views=found.views)


def seconds(work, repeats):
    """The least processor time of the work."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def turns(runners, repeats):
    for run in runners.values():
        run()
    rounds = [{name: seconds(run, 1) for name, run in runners.items()} for _ in range(repeats)]
    return {name: float(np.median([times[name] for times in rounds])) for name in runners}


def measure(data, n, repeats, loss, kind, C):
    X, _, Y, bank = rows_and_columns(data, n, kind)
    stack = bank.fit(X).stack
    options = {"C": C, "loss": loss, "tol": 1e-3}
    together = kw.learn(stack, Y, **options)
    times = turns(
        {
            "together": lambda: kw.learn(stack, Y, **options),
            "apart": lambda: [kw.learn(stack, y, **options) for y in Y.T],
        },
        repeats,
    )
    ratio = times["together"] / times["apart"]
    kernels = int(np.count_nonzero(together.weights))
    return {**times, "ratio": ratio, "gap": together.gap, "kernels": kernels}


def whole(data, n, repeats):
    from sklearn.multiclass import OneVsRestClassifier

    X, digit, Y, bank = rows_and_columns(data, n, "rest")
    times = turns(
        {
            "together": lambda: kw.learn(bank.fit(X).stack, Y),
            "apart": lambda: OneVsRestClassifier(kw.MKLClassifier(bank)).fit(X, digit),
        },
        repeats,
    )
    return {**times, "ratio": times["together"] / times["apart"]}


def main():
    args = common.arguments(__doc__)
    n, repeats = (120, 1) if args.quick else (1000, 3)
    results = common.Results("sums", args)
    plan = [
        (("learn", name), measure, args.data, n, repeats, *form) for name, form in FORMS.items()
    ]
    plan.append((("whole",), whole, args.data, n, 1 if args.quick else 3))
    results.fill(plan)
    rows = []
    for name in FORMS:
        if cell := results.get("learn", name):
            rows.append([name, *(cell[key] for key in ("together", "apart", "ratio", "kernels"))])
            met = None if args.quick else cell["ratio"] <= 1.0
            results.bar(f"{name}: together takes no longer than apart", cell["ratio"], met)
    if cell := results.get("whole"):
        rows.append(["whole", cell["together"], cell["apart"], cell["ratio"], "–"])
        met = None if args.quick else cell["ratio"] <= 0.5
        results.bar("with kernels: half the time of OneVsRestClassifier", cell["ratio"], met)
    common.table(["columns", "together s", "apart s", "ratio", "kernels"], rows)


if __name__ == "__main__":
    main()
