"""How small a gap can be: a tolerance of 1e-10 asked of ordinary problems.

Default kernels of unit trace, as KernelBank makes them, on three groups of columns: breast cancer
(60, 200 and 569 rows), diabetes (442 rows, values), wine (three classes, one against the rest) and
normal numbers (300 and 1,000 rows, one group). C is 1, 10 and 100, which is C times the mean
diagonal. The gap is that of ``Solution.certificate()``, true in exact arithmetic. ``newton`` learns
the weights under the norm 1; under other norms it hands over to the closed form.
"""

import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import kernelweave as kw
from benchmarks.harness import common

TOL = 1e-10
COSTS = (1.0, 10.0, 100.0)
LABELS, VALUES = ("hinge", "squared_hinge"), ("epsilon_insensitive", "squared", "quantile")
KINDS = [
    *((name, loss, 1) for name in ("cancer", "normal") for loss in LABELS),
    *(("diabetes", loss, 1) for loss in VALUES),
    ("wine", "hinge", 1),
    *((name, "hinge", norm) for name in ("cancer", "normal") for norm in (4 / 3, 2)),
]
ROWS = {"cancer": (60, 200, 569), "normal": (300, 1000), "diabetes": (442,), "wine": (178,)}


def problem(name, n):
    """The stack of kernels, and y."""
    rng = np.random.default_rng(n)
    if name == "normal":
        X = rng.standard_normal((n, 8))
        signal = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(n)
        return kw.KernelBank().fit(X).stack, np.where(signal > 0.0, 1.0, -1.0)
    load = {"cancer": load_breast_cancer, "diabetes": load_diabetes, "wine": load_wine}[name]
    X, y = load(return_X_y=True)
    rows = rng.permutation(len(y))[:n]
    X, y = X[rows], y[rows]
    views = {str(part[0]): part for part in np.array_split(np.arange(X.shape[1]), 3)}
    if name == "diabetes":
        y = (y - y.mean()) / y.std()
    else:
        classes = [1] if name == "cancer" else np.unique(y)
        y = np.squeeze(np.where(y[:, None] == classes, 1.0, -1.0))
    return kw.KernelBank(views={k: v.tolist() for k, v in views.items()}).fit(X).stack, y


def measure(name, loss, norm, n, C):
    stack, y = problem(name, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the status says it
        found = kw.learn(stack, y, C, loss=loss, weight_norm=norm, tol=TOL)
    return {
        "gap": found.certificate().gap,
        "status": found.status,
        "solves": found.n_svm_solves,
    }


def main():
    args = common.arguments(__doc__)
    results = common.Results("ten_digits", args)
    plan = [
        (name, loss, norm, n, C)
        for name, loss, norm in KINDS
        for n in ROWS[name][: 1 if args.quick else None]
        for C in COSTS
    ]
    results.fill([(key, measure, *key) for key in plan])
    rows, all_cells = [], []
    for kind in KINDS:
        cells = [c for key in plan if key[:3] == kind and (c := results.get(*key))]
        if not cells:
            continue
        all_cells += cells
        reached = sum(c["gap"] <= TOL for c in cells)
        gaps, solves = [c["gap"] for c in cells], [c["solves"] for c in cells]
        rows.append([*kind, len(cells), reached, np.median(gaps), max(gaps), max(solves)])
    columns = ["data", "loss", "norm", "problems", "reached", "median gap", "worst", "most solves"]
    common.table(columns, rows)
    reached = sum(c["gap"] <= TOL for c in all_cells)
    done = len(all_cells) == len(plan) and not args.quick
    told = f"{reached} of {len(all_cells)}"
    results.bar("1e-10 reached on every problem", told, reached == len(plan) if done else None)


if __name__ == "__main__":
    main()
