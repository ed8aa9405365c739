"""All Gaussians with widths between two, against grids of them and against the default bank.

Ten sets of at most 1,000 rows, standardized. Widths from 0.05 to 20 median distances, at C = 1 and
100, all fits to a gap of 1e-3: ``WidthRange``, whose certificate is over the continuum, and grids
of 50 and 200 widths in equal ratios. Seconds are those of kernels and learning together. Then five
folds: ``GaussianRange()`` as it is by default, 0.25 to 8 medians, beside the default bank.
"""

import time
import warnings

import numpy as np
from sklearn.model_selection import StratifiedKFold

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.internals import WidthRange, sq_distances
from benchmarks.harness.paper_data import GAI_SETS

SETS = [name for name in GAI_SETS if name != "colon_cancer_libsvm"]
COSTS, TOL = (1.0, 100.0), 1e-3
LOW, HIGH = 0.05, 20.0
GRIDS = (50, 200)
LARGE = 500  # rows from which on times are compared


def rows_of(name, data):
    """All rows, but at most 1,000."""
    X, y = common.load(name, data)
    order = np.random.default_rng(0).permutation(len(y))[:1000]
    return common.standardize(X[order])[0], y[order]


def continuum(data, name, C):
    """One set: the hull and both grids."""
    X, y = rows_of(name, data)
    D = sq_distances(X, X)
    median = float(np.sqrt(np.median(D[np.triu_indices(len(X), 1)])))
    low, high = LOW * median, HIGH * median

    def grid(count):
        widths = np.geomspace(low, high, count)
        D = sq_distances(X, X)
        return kw.KernelStack(np.exp(np.multiply.outer(-0.5 / widths**2, D)), check=False)

    made = {"hull": lambda: WidthRange(X, low, high)}
    made |= {str(count): lambda count=count: grid(count) for count in GRIDS}
    kw.learn(made["hull"](), y, C=C, tol=0.1)  # compiled, or loaded
    record = {"n": len(y)}
    for key, make in made.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = time.process_time()
            found = kw.learn(make(), y, C=C, tol=TOL)
            seconds = time.process_time() - began
        record[key] = {
            "cpu": seconds,
            "objective": found.objective,
            "gap": found.gap,
            "kernels": int(np.count_nonzero(found.weights)),
        }
    return record


def accuracy(data, name):
    """Five folds of both estimators."""
    X, y = rows_of(name, data)
    record = {"range": [], "default": [], "gaps": []}
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        for key, kernels in (("range", [kw.GaussianRange()]), ("default", None)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = kw.MKLClassifier(kernels).fit(X[train], y[train])
            record[key].append(100.0 * model.score(X[test], y[test]))
            if key == "range":
                record["gaps"].append(float(model.exact_gap_))
    return record


def report(results, names):
    rows, cells = [], []
    for name in names:
        for C in COSTS:
            cell = results.get(name, C)
            if not cell:
                continue
            cells.append(cell)
            hull, fine = cell["hull"], cell["200"]
            rows.append(
                [name, cell["n"], f"{C:g}", hull["gap"], hull["kernels"]]
                + [hull["objective"] / cell[str(count)]["objective"] - 1.0 for count in GRIDS]
                + [hull["cpu"], cell["50"]["cpu"], fine["cpu"]]
            )
    head = ["data", "rows", "C", "gap over the continuum", "widths", "above 50", "above 200"]
    common.table([*head, "CPU-s", "50: CPU-s", "200: CPU-s"], rows)
    full = len(cells) == len(SETS) * len(COSTS)
    gap = max((cell["hull"]["gap"] for cell in cells), default=None)
    results.bar("gap over the continuum at most 1e-3", gap, gap <= TOL if full else None)
    above = max((row[6] for row in rows), default=None)
    results.bar(
        "objective at most 1e-3 above that of 200 widths", above, above <= 1e-3 if full else None
    )
    ratios = [c["hull"]["cpu"] / c["50"]["cpu"] for c in cells if c["n"] >= LARGE]
    worst = max(ratios, default=None)
    text = f"no longer than the grid of 50, from {LARGE} rows on (largest ratio)"
    results.bar(text, worst, worst <= 1.0 if full else None)


def report_accuracy(results, names):
    rows, differences = [], []
    for name in names:
        cell = results.get(name, "accuracy")
        if cell:
            both = [np.array(cell[key]) for key in ("range", "default")]
            difference = both[0] - both[1]
            differences.append(float(difference.mean()))
            error = float(difference.std(ddof=1) / np.sqrt(difference.size))
            rows.append([name, *(float(one.mean()) for one in both), differences[-1], error])
    print("accuracy in %, five folds\n")
    common.table(["data", "GaussianRange()", "default bank", "difference", "± (folds)"], rows)
    if not differences:
        return
    mean = float(np.mean(differences))
    error = float(np.std(differences, ddof=1) / np.sqrt(len(differences))) if rows[1:] else np.inf
    results.bar(
        "accuracy within one standard error of the default bank, or better, on average",
        f"{mean:+.2f} ± {error:.2f}",
        mean >= -error if len(rows) == len(SETS) else None,
    )


def main():
    args = common.arguments(
        __doc__, sets={"nargs": "+", "choices": SETS, "default": SETS, "metavar": "SET"}
    )
    names = args.sets[:1] if args.quick else args.sets
    results = common.Results("all_widths", args)
    plan = [((name, C), continuum, args.data, name, C) for name in names for C in COSTS]
    plan += [((name, "accuracy"), accuracy, args.data, name) for name in names]
    results.fill(plan)
    report(results, names)
    report_accuracy(results, names)


if __name__ == "__main__":
    main()
