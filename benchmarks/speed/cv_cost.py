"""MKLClassifierCV against a cold grid search, and the path against cold fits.

Ionosphere, standardized, with all kernels of rakoto2007 (M = 442), 20 values of C between 0.01 and
1000, one norm. Five folds: GridSearchCV computes the kernels and learns anew for each C and fold,
MKLClassifierCV has one path per fold and kernels that folds share. On one stack of all rows: the
path against as many calls of learn. All at the same tolerance, in processor seconds of one thread,
folds by turns in one run; MKLClassifierCV is timed thrice, its median told, since other work on the
machine slows both. Fold scores are compared at a tighter tolerance, where both must agree.
"""

import time
import warnings

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import kernelweave as kw
from benchmarks.harness import common

TOL, TIGHT = 1e-3, 1e-6


def rows(data):
    X, y = common.load("ionosphere", data)
    return common.standardize(X)[0], y


def bank():
    return kw.KernelBank(common.rakoto_kernels(), views="all+each", scale=None)


def timed(work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        found = work()
        return found, time.process_time() - began


def one_stack(data, Cs):
    X, y = rows(data)
    stack = common.fit_bank(X, common.rakoto_kernels(), "all+each").stack
    _, path = timed(lambda: kw.regularization_path(stack, y, Cs, tol=TOL))
    _, cold = timed(lambda: [kw.learn(stack, y, C=C, tol=TOL) for C in Cs])
    return {"kernels": stack.m, "ours": path, "cold": cold, "ratio": path / cold}


def chosen(data, Cs):
    """All folds at once, as users call it; once before, to have all of it compiled."""
    X, y = rows(data)
    kw.MKLClassifierCV(bank(), Cs[:1], [1], StratifiedKFold(2), refit=False).fit(X, y)
    model = kw.MKLClassifierCV(bank(), Cs, [1], StratifiedKFold(5), cv_tol=TOL, refit=False)
    _, seconds = timed(lambda: model.fit(X, y))
    return {"ours": seconds}


def cold_fold(data, Cs, number, tol):
    """One fold of the grid search, all C."""
    X, y = rows(data)
    fold = [[*StratifiedKFold(5).split(X, y)][number]]
    single = kw.MKLClassifier(bank(), tol=tol)
    search, seconds = timed(lambda: GridSearchCV(single, {"C": Cs}, cv=fold, refit=False).fit(X, y))
    return {"cold": seconds, "scores": search.cv_results_["split0_test_score"]}


def same_scores(data, Cs, number):
    """One fold at a tight tolerance, both ways; the values of C that are scored otherwise."""
    X, y = rows(data)
    cold = cold_fold(data, Cs, number, TIGHT)["scores"]
    fold = [[*StratifiedKFold(5).split(X, y)][number]]
    model = kw.MKLClassifierCV(bank(), Cs, [1], fold, cv_tol=TIGHT, refit=False)
    timed(lambda: model.fit(X, y))
    ours = model.cv_results_["split0_test_score"]
    return {"differ": int(np.sum(ours != cold)), "of": len(Cs)}


def main():
    args = common.arguments(__doc__)
    Cs = np.geomspace(1e-2, 1e3, 3 if args.quick else 20).tolist()
    folds = 1 if args.quick else 5
    few = Cs[:: max(1, len(Cs) // 4)]
    plan = [(("choice", 0), chosen, args.data, Cs)]
    plan += [(("cold", k), cold_fold, args.data, Cs, k, TOL) for k in range(folds)]
    plan += [(("choice", 1), chosen, args.data, Cs)]
    plan += [(("path",), one_stack, args.data, Cs)]
    plan += [(("choice", 2), chosen, args.data, Cs)]
    plan += [(("scores", k), same_scores, args.data, few, k) for k in range(folds)]
    results = common.Results("cv_cost", args)
    results.fill(plan)

    cold = [cell["cold"] for k in range(5) if (cell := results.get("cold", k))]
    times = [cell["ours"] for k in range(3) if (cell := results.get("choice", k))]
    ours = float(np.median(times)) if len(times) == 3 else None
    whole = len(cold) == 5 and ours is not None
    ratio = ours / sum(cold) if whole else None
    path = results.get("path") or {}
    header = ["", "ours s", "cold s", "ratio"]
    table = [["five folds", ours, sum(cold) if whole else None, ratio]]
    table += [["one stack", path.get("ours"), path.get("cold"), path.get("ratio")]]
    common.table(header, table)
    text = "five folds: at most a quarter of cold fits"
    results.bar(text, ratio, None if ratio is None else ratio <= 0.25)
    text = "one stack: the path takes at most 0.4 of cold fits"
    results.bar(text, path.get("ratio"), path["ratio"] <= 0.4 if path else None)
    scores = [cell for k in range(folds) if (cell := results.get("scores", k))]
    differ = sum(cell["differ"] for cell in scores)
    text = f"scores of folds are equal, at a gap of {TIGHT:g}"
    told = f"{differ} of {sum(cell['of'] for cell in scores)} differ"
    results.bar(text, told, differ == 0 if len(scores) == folds else None)


if __name__ == "__main__":
    main()
