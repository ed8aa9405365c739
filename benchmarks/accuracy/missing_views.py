"""Rows that lack views: against column means, and against rows that have all views.

Handwritten digits in six views (mfeat). Of all (row, view) pairs 0, 20, 40 and 60 % are taken away
at random, in training and test rows; every row keeps one view. Ten splits, 300 training and 500
test rows, ten classes, default kernels on every view, centered.

- mean: ``KernelBank(missing="mean")``; indicator: the same, and a kernel per view of who has it.
- column means: ``SimpleImputer`` before the same bank.
- complete rows: fitted on training rows that have all views; test rows get their column means.

± is the standard error of the difference to "mean" over the splits. TCGA breast cancer: protein was
not measured in any of the 70 test rows. Three views, of which test rows lack one, beside two.
"""

import os
import warnings

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import kernelweave as kw
from benchmarks.harness import common

LEVELS = (0, 20, 40, 60)
VIEWS = ("fou", "fac", "kar", "pix", "zer", "mor")
METHODS = ("mean", "indicator", "column means", "complete rows")
OMICS = ("mirna", "mrna", "protein")


def read(data, name):
    """Arrays of one file of the data folder."""
    path = os.path.join(data or "", f"{name}.npz")
    if not os.path.exists(path):
        raise common.Skipped(f"{name}.npz is not in the data folder")
    return np.load(path, allow_pickle=True)


def bank(views, missing="mean"):
    return kw.KernelBank(views=views, normalize="center+trace", missing=missing)


def digits(data):
    """All columns, the slices of the views, the digits."""
    file = read(data, "mfeat")
    ends = np.cumsum([0, *(file[view].shape[1] for view in VIEWS)]).tolist()
    views = {view: slice(*ends[k : k + 2]) for k, view in enumerate(VIEWS)}
    return np.hstack([file[view] for view in VIEWS]).astype(float), views, file["y"]


def take_away(X, views, level, rng):
    """Columns of random (row, view) pairs made NaN; every row keeps one view."""
    X = X.copy()
    gone = np.zeros((len(X), len(views)), dtype=bool)
    for place in rng.permutation(gone.size)[: round(level / 100 * gone.size * 1.5)]:
        row, view = divmod(int(place), len(views))
        if gone.sum() < round(level / 100 * gone.size) and gone[row].sum() < len(views) - 1:
            gone[row, view] = True
    for view, columns in enumerate(views.values()):
        X[gone[:, view], columns] = np.nan
    return X, gone


def measure(data, level, seed, quick):
    X, views, y = digits(data)
    sizes = {"train_size": 120 if quick else 300, "test_size": 150 if quick else 500}
    train, test = train_test_split(np.arange(len(X)), stratify=y, random_state=seed, **sizes)
    X, gone = take_away(X, views, level, np.random.default_rng(seed))
    whole = train[~gone[train].any(axis=1)]
    record = {"removed": float(gone.mean()), "complete": len(whole)}
    for name in METHODS:
        model = kw.MKLClassifier(bank(views, "indicator" if name == "indicator" else "mean"))
        rows = whole if name == "complete rows" else train
        if name in ("column means", "complete rows"):
            model = make_pipeline(SimpleImputer(), model)
        if len(np.unique(y[rows])) < 2:
            record[name] = {"accuracy": None, "gap": None}
            continue
        model = quietly(model.fit, X[rows], y[rows])
        last = model[-1] if hasattr(model, "steps") else model
        score = 100.0 * model.score(X[test], y[test])
        record[name] = {"accuracy": round(score, 3), "gap": float(np.max(last.duality_gap_))}
        if name == "mean":
            complete = test[~gone[test].any(axis=1)]
            alone = model.decision_function(X[complete]) if len(complete) else np.zeros((0, 1))
            beside = model.decision_function(X[test])[~gone[test].any(axis=1)]
            record["moved"] = float(np.abs(alone - beside).max(initial=0.0))
    return record


def measure_omics(data):
    """Three views, of which test rows lack protein, beside two."""
    file = read(data, "tcga_breast_mixomics")
    parts = [file[f"{view}_train"].astype(float) for view in OMICS]
    new = [file["mirna_test"].astype(float), file["mrna_test"].astype(float)]
    lacking = np.full((len(new[0]), parts[2].shape[1]), np.nan)
    record = {}
    for name, count in (("three views", 3), ("two views", 2)):
        X, views = kw.join_views(dict(zip(OMICS[:count], parts[:count], strict=True)))
        model = quietly(kw.MKLClassifier(bank(views)).fit, X.to_numpy(), file["y_train"])
        rows = np.hstack([*new, lacking][:count])
        score = 100.0 * model.score(rows, file["y_test"])
        record[name] = {"accuracy": score, "gap": float(np.max(model.duality_gap_))}
    return record


def quietly(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


def report(results, levels, splits):
    rows, worst = [], {}
    for level in levels:
        cells = [c for seed in splits if (c := results.get(level, seed))]
        if not cells:
            continue
        row = [f"{level} %", float(np.mean([c["complete"] for c in cells]))]
        for name in METHODS:
            pairs = [
                (c[name]["accuracy"], c["mean"]["accuracy"])
                for c in cells
                if c[name]["accuracy"] is not None
            ]
            if not pairs:  # no split has two classes of complete rows
                row += [None, None]
                continue
            own, ours = np.array(pairs).T
            row += [float(own.mean()), common.standard_error(own - ours)]
            if name in ("column means", "complete rows"):
                worst[name, level] = (float((ours - own).mean()), common.standard_error(ours - own))
        gaps = [c[name]["gap"] for c in cells for name in METHODS if c[name]["gap"] is not None]
        rows.append([*row, max(gaps), max(c["moved"] for c in cells)])
    header = ["removed", "complete rows of training"]
    for name in METHODS:
        header += [name, "±"]
    common.table([*header, "worst gap", "complete rows moved by"], rows)
    return worst


def main():
    args = common.arguments(__doc__)
    levels, splits = ((0, 40), range(2)) if args.quick else (LEVELS, range(10))
    results = common.Results("missing_views", args)
    plan = [((level, seed), measure, args.data, level, seed, args.quick)
            for seed in splits for level in levels]  # fmt: skip
    results.fill([*plan, (("omics",), measure_omics, args.data)])
    worst = report(results, levels, splits)
    omics = results.get("omics")
    if omics:
        names = ("three views", "two views")
        shown = [[name, omics[name]["accuracy"], omics[name]["gap"]] for name in names]
        common.table(["TCGA breast, 70 test rows without protein", "accuracy", "gap"], shown)
    means = [value for (name, _), value in worst.items() if name == "column means"]
    if means:
        lowest = min(difference + error for difference, error in means)
        text = "not below column means less one standard error, at any level"
        results.bar(text, f"{lowest:+.2f} points at worst, with the error", lowest >= 0.0)
    if ("complete rows", 20) in worst:
        difference, _ = worst["complete rows", 20]
        results.bar("above complete rows at 20 %", f"{difference:+.2f} points", difference > 0.0)


if __name__ == "__main__":
    main()
