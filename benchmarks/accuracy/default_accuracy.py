"""Default MKLClassifier against SVC on standardized features and the majority class.

Five stratified folds, the same for all three, on the eleven binary sets of gai2010, table 1. Raw
features go to MKLClassifier, nothing is tuned.
"""

import time
import warnings

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.harness import common
from benchmarks.harness.paper_data import GAI_SETS
from kernelweave import MKLClassifier


def measure(data, name, seed):
    X, y = common.load(name, data)
    makers = {
        "mkl": MKLClassifier,
        "svc": lambda: make_pipeline(StandardScaler(), SVC()),
        "majority": lambda: DummyClassifier(strategy="most_frequent"),
    }
    record = {key: [] for key in makers} | {"seconds": [], "gap": [], "warnings": []}
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    for train, test in folds.split(X, y):
        for key, make in makers.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                began = time.perf_counter()
                model = make().fit(X[train], y[train])
                seconds = time.perf_counter() - began
                record[key].append(100.0 * model.score(X[test], y[test]))
            if key == "mkl":
                record["seconds"].append(seconds)
                record["gap"].append(float(model.duality_gap_))
                record["warnings"] += [str(w.message)[:200] for w in caught]
    return record


def main():
    args = common.arguments(
        __doc__, repeats={"type": int, "default": 1, "help": "partitions into five folds (1)"}
    )
    names = ["heart", "sonar"] if args.quick else list(GAI_SETS)
    repeats = 1 if args.quick else args.repeats
    plan = [(name, seed) for seed in range(repeats) for name in names]
    results = common.Results("default_accuracy", args)
    results.fill([(key, measure, args.data, *key) for key in plan])
    rows, within = [], 0
    for name in names:
        cells = [c for seed in range(repeats) if (c := results.get(name, seed))]
        if not cells:
            continue
        mkl, svc, majority = (
            float(np.mean([c[key] for c in cells])) for key in ("mkl", "svc", "majority")
        )
        differences = np.array([np.subtract(c["mkl"], c["svc"]) for c in cells]).ravel()
        error = float(differences.std(ddof=1) / np.sqrt(differences.size))
        good = mkl >= svc - 1.0
        within += good
        seconds = float(np.mean([c["seconds"] for c in cells]))
        gap = max(g for c in cells for g in c["gap"])
        warned = sum(len(c["warnings"]) for c in cells)
        rows.append(
            [GAI_SETS[name], majority, svc, mkl, mkl - svc, error, good, seconds, gap, warned]
        )
    header = ["data", "majority", "SVC", "MKL", "MKL − SVC", "± (folds)", "within a point"]
    common.table([*header, "fit s", "worst gap", "warnings"], rows)
    met = within >= 8 if len(rows) == len(GAI_SETS) else None
    text = "within one point of SVC (or above) on at least 8 of 11 sets"
    results.bar(text, f"{within} of {len(rows)}", met)


if __name__ == "__main__":
    main()
