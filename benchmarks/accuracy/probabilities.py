"""Probabilities: ours beside scikit-learn's around the same model, on rows never seen.

Eight sets, four of two classes and four of more, stratified random splits: seven tenths of the rows
to learn on, at most 800. MKLClassifier(calibration=…) stands beside
CalibratedClassifierCV(MKLClassifier(), ensemble=False), both with five folds; MKLClassifierCV,
which chooses among four C and two norms, beside CalibratedClassifierCV around the model it chose.
Lower is better. Seconds are of the processor, on one thread: the calibrated fit over the plain one,
and MKLClassifierCV over itself without what it does for probabilities.
"""

import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_wine
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import StratifiedShuffleSplit

import kernelweave as kw
from benchmarks.harness import common, tabular_sets

SPLITS, MOST = 20, 800
TWO = ("heart", "pima", "german_numeric", "credit")
MANY = ("wine", "digits", "mfeat_fou", "mfeat_zer")
CHOOSE = {"banks": kw.KernelBank(), "Cs": [0.1, 1.0, 10.0, 100.0], "weight_norms": [1, "equal"]}
PAIRS = (("one", "sigmoid"), ("one", "isotonic"), ("chosen", "sigmoid"), ("chosen", "isotonic"))
ALLOWED = 1.02


class Without(kw.MKLClassifierCV):
    """The same, without what makes probabilities."""

    def _held_out(self, task, trials, candidate):
        return {}


def rows_of(data, name):
    """Rows and classes."""
    if name in TWO:
        return tabular_sets.read(name, data)
    if name in ("wine", "digits"):
        return {"wine": load_wine, "digits": load_digits}[name](return_X_y=True)
    found = common.fetch("mfeat", data)
    view = name.removeprefix("mfeat_")
    return found.X[:, found.views[view]].astype(float), found.y


def timed(model, X, y):
    """A fitted model, and what it took."""
    began = time.process_time()
    model.fit(X, y)
    return model, time.process_time() - began


def measure(data, name, seed):
    X, y = rows_of(data, name)
    size = min(MOST, round(0.7 * len(y)))
    cut = StratifiedShuffleSplit(1, train_size=size, random_state=seed)
    ((train, test),) = cut.split(X, y)
    found = {"rows": size}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # isotonic regression on few rows
        _, plain = timed(kw.MKLClassifier(), X[train], y[train])
        _, without = timed(Without(**CHOOSE), X[train], y[train])
        for kind, method in PAIRS:
            ours = kw.MKLClassifier if kind == "one" else kw.MKLClassifierCV
            given = {} if kind == "one" else CHOOSE
            model, seconds = timed(ours(calibration=method, **given), X[train], y[train])
            best = clone(getattr(model, "best_estimator_", model)).set_params(calibration=None)
            theirs = CalibratedClassifierCV(best, method=method, ensemble=False, cv=5)
            pair = model, theirs.fit(X[train], y[train])
            shares = [one.predict_proba(X[test]) for one in pair]
            found[f"{kind} {method}"] = {
                "brier": [float(brier_score_loss(y[test], _binary(p))) for p in shares],
                "log loss": [float(log_loss(y[test], p)) for p in shares],
                "time": seconds / (plain if kind == "one" else without),
            }
    return found


def _binary(p):
    return p[:, 1] if p.shape[1] == 2 else p


def main():
    args = common.arguments(__doc__, splits={"type": int, "default": SPLITS, "help": "how many"})
    names = ["heart", "wine"] if args.quick else [*TWO, *MANY]
    splits = 2 if args.quick else args.splits
    results = common.Results("probabilities", args)
    results.fill(
        [((n, seed), measure, args.data, n, seed) for seed in range(splits) for n in names]
    )
    rows, met, times = [], {}, {}
    for name in names:
        cells = [c for seed in range(splits) if (c := results.get(name, seed))]
        for kind, method in PAIRS:
            key = f"{kind} {method}"
            row = [
                name,
                len(cells),
                {"one": "MKLClassifier", "chosen": "MKLClassifierCV"}[kind],
                method,
            ]
            for what in ("brier", "log loss"):
                ours, theirs = np.mean([c[key][what] for c in cells], axis=0)
                row += [ours, theirs, ours / theirs]
                met.setdefault((what, kind, method, name in TWO), []).append(ours / theirs)
            taken = float(np.median([c[key]["time"] for c in cells]))
            if cells[0]["rows"] >= 500:
                times.setdefault(kind, []).append(taken)
            rows.append([*row, taken])
    header = ["set", "splits", "model", "curve"]
    for what in ("Brier", "log loss"):
        header += [what, f"{what}, scikit-learn's", "ratio"]
    common.table([*header, "time, ratio"], rows)
    for (what, kind, method, two), ratios in met.items():
        if method == "isotonic" and what == "log loss":
            continue  # infinite wherever a step is 0: no bar
        good = sum(ratio <= ALLOWED for ratio in ratios)
        text = f"{kind}, {method}, {what}, {'two' if two else 'many'} classes: within 2 %"
        results.bar(
            text, f"{good} of {len(ratios)} sets, worst {max(ratios):.3f}", good == len(ratios)
        )
    for kind, most in (("one", 3.0), ("chosen", 1.05)):
        if kind in times:
            worst = max(times[kind])
            results.bar(
                f"{kind}: time at 500 rows and more, at most {most}", f"{worst:.2f}", worst <= most
            )


if __name__ == "__main__":
    main()
