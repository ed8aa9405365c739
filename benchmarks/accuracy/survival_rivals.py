"""Survival: MKLSurvivalCV against Cox's model and a survival SVM, all tuned alike; three views.

Five data sets that scikit-survival brings along, of at most 700 rows (of aids so many are drawn,
with the share of events that there is): 4 × 5 folds with equal shares of events. All methods choose
by the same three folds of the training rows, by Harrell's C: Cox's model (CoxPHSurvivalAnalysis)
its ridge, one of {0.01, 0.1, 1, 10, 100}; the ranking SVM (FastKernelSurvivalSVM, Gaussian) its
cost, one of {0.001, 0.01, 0.1}, and γ, one of {0.1, 1}/columns. Both see categories as 0 and 1
and columns at mean 0 and variance 1. MKLSurvivalCV gets the table as it is, and is left at its
defaults: it chooses one of seven C, and the norm of its weights.

FastKernelSurvivalSVM takes 20 seconds and more for one fit to 440 rows. So it gets the same kernel
as features, its 100 leading eigenvectors, from FastSurvivalSVM, which has the same optimum where
these are all, and takes less than a second. With all of them, 88, predictions of 37 rows of
veterans had a correlation of 0.99999 with those of FastKernelSurvivalSVM, with 50 of 0.9996.

Differences are of the C-index on the same rows, and brackets 95 % intervals by the t-test of Nadeau
and Bengio over 20 splits. "all" is the mean over the sets.

The views: 300 rows, three views of five columns each, of which one tells of the time; a third of
the rows censored. The weight is that of the view at the default C, ten draws.
"""

import time
import warnings

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.internals import HeldOut, concordance, told

SETS = {
    "whas500": "load_whas500",
    "gbsg2": "load_gbsg2",
    "veterans": "load_veterans_lung_cancer",
    "breast_cancer": "load_breast_cancer",
    "aids": "load_aids",
}
OURS, COX, SVM = "MKLSurvivalCV", "Cox", "survival SVM"
METHODS = (OURS, COX, SVM)
REPEATS, FOLDS, INNER, MOST, DRAWS = 4, 5, 3, 700, 10
RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
ALPHAS, GAMMAS, FEATURES = (0.001, 0.01, 0.1), (0.1, 1.0), 100


def load(name):
    """A table, times and events."""
    common.need("sksurv")
    from sksurv import datasets

    X, y = getattr(datasets, SETS[name])()
    event, when = (y[field] for field in y.dtype.names)
    rows = np.arange(len(y))
    if len(rows) > MOST:
        rng = np.random.default_rng(0)
        share = MOST / len(rows)
        parts = [np.flatnonzero(event == kind) for kind in (True, False)]
        rows = np.sort(
            np.concatenate([rng.choice(p, round(share * p.size), replace=False) for p in parts])
        )
    X = X.iloc[rows].reset_index(drop=True)
    words = X.select_dtypes("category").columns
    return X.astype(dict.fromkeys(words, str)), when[rows], event[rows]


def splits(event, count, seed):
    cutter = StratifiedKFold(count, shuffle=True, random_state=seed)
    return list(cutter.split(np.empty((len(event), 1)), event))


def measure(name, method, seed):
    """The C-index of one method on one of the splits."""
    X, when, event = load(name)
    train, test = splits(event, FOLDS, seed // FOLDS)[seed % FOLDS]
    inner = splits(event[train], INNER, seed)
    y = np.empty(len(when), [("event", bool), ("time", float)])
    y["event"], y["time"] = event, when
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == OURS:
            model = kw.MKLSurvivalCV(cv=inner).fit(X.iloc[train], y[train])
            risk, chosen = model.predict(X.iloc[test]), model.best_params_
            more = {"gap": float(model.duality_gap_)}
        else:
            risk, chosen = rival(method, X, y, train, test, inner)
            more = {}
    seconds = time.process_time() - began
    found = concordance(when[test], event[test], risk)
    return {"c": found, "seconds": seconds, "chosen": str(chosen), **more}


def rival(method, X, y, train, test, inner):
    """Risks of the rows held out, and the parameters that the inner folds chose."""
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.svm import FastSurvivalSVM

    def risks(learn, new, parameters):
        A, B = encoded(X.iloc[learn], X.iloc[new])
        if method == COX:
            model = CoxPHSurvivalAnalysis(alpha=parameters[0])
        else:
            model = FastSurvivalSVM(alpha=parameters[0], max_iter=100, random_state=0)
            A, B = features(A, B, parameters[1] / A.shape[1])
        return model.fit(A, y[learn]).predict(B)

    def score(parameters):
        found = []
        for learn, new in inner:
            known = y[train[new]]
            risk = risks(train[learn], train[new], parameters)
            found.append(concordance(known["time"], known["event"], risk))
        return np.mean(found)

    grid = [(r,) for r in RIDGES] if method == COX else [(a, g) for a in ALPHAS for g in GAMMAS]
    best = max(grid, key=score)
    return risks(train, test, best), best


def encoded(learn, new):
    """Categories as 0 and 1, numbers at mean 0 and variance 1."""
    words = OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False)
    numbers = make_column_selector(dtype_include="number")
    made = make_column_transformer((StandardScaler(), numbers), remainder=words).fit(learn)
    return made.transform(learn), made.transform(new)


def features(A, B, gamma):
    """Features whose products are the Gaussian kernel of the rows to learn from."""
    values, vectors = np.linalg.eigh(rbf_kernel(A, gamma=gamma))
    some = np.flatnonzero(values > 1e-6 * values[-1])[-FEATURES:]
    onto = vectors[:, some] / np.sqrt(values[some])
    return rbf_kernel(A, gamma=gamma) @ onto, rbf_kernel(B, A, gamma=gamma) @ onto


def views(seed):
    """The weight of the view that matters, at the default C."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 15))
    times = np.exp(X[:, :5] @ [1.0, -1.0, 0.5, 0.0, 0.0] + 0.5 * rng.standard_normal(300))
    seen = rng.exponential(3.0 * np.median(times), 300)
    y = np.column_stack([np.minimum(times, seen), times <= seen])
    parts = {"tells": [*range(5)], "noise": [*range(5, 10)], "more": [*range(10, 15)]}
    model = kw.MKLSurvival(kw.KernelBank(views=parts), folds=None).fit(X, y)
    weights = dict.fromkeys(parts, 0.0)
    for view, weight in zip(model.bank_.views, model.weights_, strict=True):
        weights[view] += float(weight)
    share = weights["tells"] / sum(weights.values())
    return {"share": share, "seen": float(y[:, 1].mean()), "gap": float(model.duality_gap_)}


def main():
    args = common.arguments(__doc__)
    results = common.Results("survival_rivals", args)
    names = ["veterans"] if args.quick else list(SETS)
    seeds = range(2 if args.quick else REPEATS * FOLDS)
    plan = [((n, m, seed), measure, n, m, seed) for m in METHODS for seed in seeds for n in names]
    draws = range(2 if args.quick else DRAWS)
    results.fill([*[(("views", k), views, k) for k in draws], *plan])
    for rival_ in METHODS[1:]:
        against(results, rival_, names, seeds)
    seconds = [
        [n, *(common.mean(cells(results, n, m, seeds).values(), "seconds") for m in METHODS)]
        for n in names
    ]
    common.table(["seconds of the processor, tuning included", *METHODS], seconds)
    shares = [cell["share"] for k in draws if (cell := results.get("views", k))]
    if shares:
        good = sum(share >= 0.8 for share in shares)
        common.table(["draw", "weight of the view that tells"], list(enumerate(shares)))
        met = good == DRAWS if len(shares) == DRAWS else None
        results.bar("weight of the view that tells ≥ 0.8", f"{good} of {len(shares)} draws", met)


def cells(results, name, method, seeds):
    """What is known, by split."""
    return {seed: cell for seed in seeds if (cell := results.get(name, method, seed))}


def against(results, rival_, names, seeds):
    """Both methods on the splits that both have, on each set and in the mean over the sets."""
    found, rows = {}, []
    for name in names:
        ours, theirs = (cells(results, name, method, seeds) for method in (OURS, rival_))
        both = {seed: (ours[seed]["c"], theirs[seed]["c"]) for seed in ours if seed in theirs}
        if len(both) > 1:
            found[name] = both
    if not found:
        return
    shared = set.intersection(*map(set, found.values()))
    if len(shared) > 1:
        found["all"] = {k: np.mean([one[k] for one in found.values()], axis=0) for k in shared}
    least = np.inf
    for name, both in found.items():
        scores = np.array([*both.values()])
        held = HeldOut((OURS, rival_), scores, "C-index", 1.0 / (FOLDS - 1))
        difference = held.difference(rival_)
        least = min(least, difference[0])
        rows.append([name, len(both), *scores.mean(axis=0), told(*difference)])
    common.table(["C-index", "splits", OURS, rival_, "difference"], rows)
    complete = len(found) > len(SETS) and len(shared) == REPEATS * FOLDS
    mean = float(np.diff(scores.mean(axis=0))[0]) * -1.0
    for what, value in (("mean", mean), ("least", least)):
        met = value >= -0.01 if complete else None
        results.bar(f"{what} difference to {rival_} over the sets ≥ −0.01", value, met)


if __name__ == "__main__":
    main()
