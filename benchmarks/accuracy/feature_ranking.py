"""Which columns matter: ``feature_importance`` against the truth of simulated patients

``make_multiomics`` knows which of its 134 columns follow what decides about the outcome. The area
under the ROC curve, columns in truth against the others, ranked by gradients, by permutation and by
the marginal test that stands beside them. One row of seconds: 500 rows and 2,000 columns.
"""

import time
import warnings

import numpy as np
from sklearn.metrics import roc_auc_score

import kernelweave as kw
from benchmarks.harness import common
from kernelweave.inspection import feature_importance

SETTINGS = {(1000, 3.0): 0.95, (500, 3.0): None, (500, 1.0): None, (150, 1.0): None}
METHODS, MOST = ("gradient", "permutation"), 500  # rows up to which columns are permuted, too
SECONDS = 10.0


def measure(n, effect, seed):
    warnings.simplefilter("ignore")
    data = kw.datasets.make_multiomics(n, effect=effect, random_state=seed)
    X, views = kw.join_views(data.tables)
    y = data.y[X.index]
    truth = {f"{view}__{name}" for view, names in data.informative.items() for name in names}
    model = kw.MKLClassifier(kw.KernelBank(views=views))
    found = {}
    for method in METHODS if n <= MOST else METHODS[:1]:
        table = feature_importance(
            model, X, y, method=method, n_resamples=1, n_shuffles=2, random_state=seed
        ).frame()
        known = table["column"].isin(truth)
        found[method] = float(roc_auc_score(known, table["importance"]))
    found["marginal"] = float(roc_auc_score(known, -table["marginal_p"]))
    return found


def seconds(views):
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 2000))
    y = X[:, :10].sum(axis=1) + rng.standard_normal(500) > 0
    size = 2000 // views
    bank = kw.KernelBank(views={f"{v}": slice(v * size, (v + 1) * size) for v in range(views)})
    kw.MKLClassifier().fit(X[:50, :5], y[:50])  # compiles
    start = time.perf_counter()
    feature_importance(kw.MKLClassifier(bank), X, y)
    return {"seconds": time.perf_counter() - start}


def main():
    draws = {"type": int, "default": 10, "help": "draws of each setting (10)"}
    args = common.arguments(__doc__, draws=draws)
    count = 1 if args.quick else args.draws
    results = common.Results("features", args)
    settings = {(150, 1.0): None} if args.quick else SETTINGS
    cells = [
        ((f"{n}, {effect:g}", seed), measure, n, effect, seed)
        for n, effect in settings
        for seed in range(count)
    ]
    several = () if args.quick else (1, 4)
    results.fill([*cells, *((("seconds", views), seconds, views) for views in several)])
    table = []
    for (n, effect), bar in settings.items():
        key = f"{n}, {effect:g}"
        found = [cell for seed in range(count) if (cell := results.get(key, seed))]
        if not found:
            continue
        for method in (*METHODS, "marginal"):
            values = np.array([cell[method] for cell in found if method in cell])
            if not values.size:
                continue
            table.append(
                [n, effect, method, len(values), values.mean(), values.min(), values.max()]
            )
        if bar is not None:
            least = min(cell["gradient"] for cell in found)
            met = least >= bar if len(found) >= 10 else None
            text = f"n = {n}, effect {effect:g}: area of gradients at least {bar} on each draw"
            results.bar(text, f"{least:.3f}", met)
    print()
    common.table(["rows", "effect", "ranked by", "draws", "mean", "least", "most"], table)
    for views in several:
        cell = results.get("seconds", views)
        if cell:
            text = f"500 rows, 2,000 columns in {views} views: at most {SECONDS:.0f} s"
            results.bar(text, f"{cell['seconds']:.1f} s", cell["seconds"] <= SECONDS)


if __name__ == "__main__":
    main()
