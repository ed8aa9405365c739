"""Accuracy of learning with many kernels: ours, MKLpy, himalaya, one kernel and equal weights.

Eleven binary sets of gai2010, five stratified folds, the same for all; features standardized, 10
Gaussians and polynomials of degree 1 to 10 brought to mean diagonal 1 on the training rows, copies
left out. Hyperparameters by 3-fold cross-validation on the training rows, the same folds for all:
C from {0.01, …, 100}; for one kernel also which; for EasyMKL also λ from {0.1, 0.5, 0.9}; R-MKL and
PWMK see the C of their machine, R-MKL from 1. himalaya itself tries 50 draws of weights and 9
ridges. Ours with newton's objective would all have its accuracy, so that simple stands for them.

MKLpy learns weights, SVC the machine. GRAM's formulas hold for kernels of unit diagonal, so that it
gets these. GRAM, MEMO and R-MKL start with learning rate 1, halved whenever their objective gets
worse, and keep what they have after two seconds; other fits of MKLpy's that take as long, or fail,
stand for the larger class. Seconds are the processor's, one thread.
"""

import contextlib
import importlib
import warnings
from functools import cache, lru_cache

import numpy as np
from sklearn.model_selection import StratifiedKFold

from benchmarks.harness import common, ranking
from benchmarks.harness.paper_data import GAI_FOLDS as FOLDS
from benchmarks.harness.paper_data import GAI_SETS
from benchmarks.harness.rival_methods import choose, methods, warm_up

SETS = list(GAI_SETS)
LIMIT, LEVEL = 2.0, 0.05
OURS = "newton"  # the one that others are compared with


@lru_cache(maxsize=2)
def prepare(data, name, fold, normalize):
    """Kernels of training and test rows, labels, and the folds within the training rows."""
    X, y = common.load(name, data)
    outer = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    train, test = list(outer.split(X, y))[fold]
    X_train, X_test = common.standardize(X[train], X[test])
    bank = common.fit_bank(X_train, common.gai_kernels(), normalize=normalize)
    inner = StratifiedKFold(3, shuffle=True, random_state=0).split(X_train, y[train])
    K, cross = common.matrices(bank.stack), bank.cross_stack(X_test)
    return K, cross, y[train], y[test], list(inner)


@cache
def ready(name, limit):
    method = methods(limit)[name]
    warm_up(method)
    return method


def measure(data, name, fold, method, limit):
    ready_method = ready(method, limit)
    K, cross, y, y_test, inner = prepare(data, name, fold, ready_method.normalize or "trace")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, record = choose(ready_method, K, y, inner)
        values = model(cross)
    return record | {"accuracy": common.accuracy(values, y_test), "m": len(K), "n": len(y)}


def report(results, names, folds, known):
    """Accuracy on each set, then ranks and tests over the sets that all methods have whole."""
    cells = {
        (name, method): [c for f in range(folds) if (c := results.get(name, f, method))]
        for name in names
        for method in known
    }
    known = [m for m in known if any(cells[name, m] for name in names)]
    rows = [
        [name, *(common.mean(cells[name, method], "accuracy") for method in known)]
        for name in names
    ]
    print("accuracy in %, mean over the folds\n")
    common.table(["data", *known], [[row[0], *map(_tenth, row[1:])] for row in rows])
    whole = [row for row in rows if all(len(cells[row[0], m]) == folds for m in known)]
    if OURS not in known or len(known) < 3 or len(whole) < 2:
        return
    scores = np.array([row[1:] for row in whole])
    ranks = ranking.average_ranks(scores)
    mine = known.index(OURS)
    raw = [ranking.wilcoxon(scores[:, mine], scores[:, k]) for k in range(len(known))]
    others = [k for k in range(len(known)) if k != mine]
    p = dict(zip(others, ranking.holm([raw[k] for k in others]), strict=True))
    rows = []
    for k in np.argsort(ranks):
        found = [c for name, *_ in whole for c in cells[name, known[k]]]
        rows.append(
            [known[k], ranks[k], _tenth(scores[:, k].mean())]
            + [ranking.standing(scores[:, mine], scores[:, k]) if k != mine else None]
            + [raw[k] if k != mine else None, p.get(k)]
            + [float(np.median([c[field] for c in found])) for field in ("fit_seconds", "seconds")]
            + [sum(c["late"] for c in found), sum(len(c["failed"]) for c in found)]
        )
    print(f"{len(known)} methods on {len(whole)} sets; {OURS} beside each\n")
    header = ["method", "average rank", "mean accuracy", "better – equal – worse", "Wilcoxon p"]
    header += ["Holm p", "fit s (median)", "with selection s", "fits out of time", "fits failed"]
    common.table(header, rows)
    difference = ranking.critical_difference(len(known), len(whole), LEVEL)
    near = [known[k] for k in np.argsort(ranks) if ranks[k] - ranks.min() < difference]
    print(f"- Friedman's test that all are alike: p = {ranking.friedman(scores):.2g}")
    print(f"- Nemenyi's critical difference at {100 * LEVEL:g} %: {difference:.2f} ranks")
    print(f"- not told from the best by it: {', '.join(near)}")
    reasons = sorted(
        {f"{m}: {r}" for (_, m), found in cells.items() for c in found for r in c["failed"]}
    )
    if reasons:
        print("\nhow fits failed\n")
        print("\n".join(f"- {reason}" for reason in reasons))


def _tenth(x):
    return None if x is None else f"{x:.1f}"


def main():
    args = common.arguments(
        __doc__,
        sets={"nargs": "+", "choices": SETS, "default": SETS, "metavar": "SET"},
        limit={"type": float, "default": LIMIT, "help": "seconds of a fit of MKLpy's (2)"},
        processes={"type": int, "default": 1, "help": "several are sooner done, in more seconds"},
    )
    names, folds, limit = args.sets, FOLDS, args.limit
    if args.quick:
        names, folds, limit = ["colon_cancer_libsvm", "wpbc"], 1, 0.2
    for package in ("torch", "himalaya"):  # before the threads are counted
        with contextlib.suppress(ImportError):
            importlib.import_module(package)
    known = list(methods(limit))
    plan = [(name, fold, method) for fold in range(folds) for name in names for method in known]
    results = common.Results("rival_accuracy", args)
    results.fill([(key, measure, args.data, *key, limit) for key in plan], args.processes)
    report(results, names, folds, known)


if __name__ == "__main__":
    main()
