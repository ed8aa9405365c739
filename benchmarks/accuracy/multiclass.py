"""Ten digits in six views: one set of kernel weights for all classes, against machines apart.

mfeat, 30 kernels (the default ones on each view, columns standardized), 10 stratified splits with
1,000 rows to train and 1,000 to test, C = 1, gap 1e-3. "summed" is MKLClassifier, one machine per
class and one set of weights; "pairs" has one machine per pair of classes; "own weights" one set per
machine; "OneVsRestClassifier" wraps a classifier for each class, kernels included. Also our
EasyMKL, SVC on all columns, and as rivals EasyMKL of MKLpy (one machine per class) and himalaya's
MultipleKernelRidgeCV on one column per class, 20 candidates for the weights, both on our kernels
and on the first 5 splits.

Seconds are the processor's, for a whole ``fit`` (of rivals, plus the kernels of the bank). "learn"
compares the numeric part alone, on one stack: all classes summed, and ten separate calls.
"""

import time
import warnings

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelweave as kw
from benchmarks.harness import common

SPLITS, TRAIN = 10, 1000
RIVAL_SPLITS = 5
OURS = {
    "summed": lambda bank: kw.MKLClassifier(bank),
    "pairs": lambda bank: kw.MKLClassifier(bank, multi_class="ovo"),
    "own weights": lambda bank: kw.MKLClassifier(bank, shared_weights=False),
    "equal weights": lambda bank: kw.MKLClassifier(bank, learner="uniform"),
    "our EasyMKL": lambda bank: kw.MKLClassifier(bank, learner="easy"),
    "OneVsRestClassifier": lambda bank: OneVsRestClassifier(kw.MKLClassifier(bank)),
    "SVC, all columns": lambda bank: make_pipeline(StandardScaler(), SVC()),
}


def rows_of(data, seed, n):
    found = common.fetch("mfeat", data)
    draw = StratifiedShuffleSplit(1, train_size=n, test_size=n, random_state=seed)
    train, test = next(draw.split(found.X, found.y))
    X = found.X.astype(float)
    bank = kw.KernelBank(views=found.views, scale="standard")
    return X[train], found.y[train], X[test], found.y[test], bank


def measure(data, seed, n):
    """Ours and scikit-learn's in turns, then learn on one stack."""
    X, y, X_test, y_test, bank = rows_of(data, seed, n)
    record = {}
    for name, make in OURS.items():
        seconds, model = timed(make(bank).fit, X, y)
        record[name] = {"accuracy": 100.0 * float(model.score(X_test, y_test)), "seconds": seconds}
        if hasattr(model, "duality_gap_"):
            record[name]["gap"] = float(model.duality_gap_)
    stack = bank.fit(X).stack
    signs = np.where(y[:, None] == np.unique(y), 1.0, -1.0)
    apart = timed(lambda: [kw.learn(stack, column) for column in signs.T])[0]
    record["learn"] = {"summed": timed(kw.learn, stack, signs)[0], "apart": apart}
    return record


def timed(function, *args):
    """Processor seconds, and the result; warnings are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        result = function(*args)
    return time.process_time() - began, result


def measure_rival(data, rival, seed, n):
    X, y, X_test, y_test, bank = rows_of(data, seed, n)
    seconds, fitted = timed(bank.fit, X)
    more, predict = timed(RIVALS[rival], common.matrices(fitted.stack), y)
    correct = predict(fitted.cross_stack(X_test)) == y_test
    return {"accuracy": 100.0 * float(np.mean(correct)), "seconds": seconds + more}


def easy(K, y):
    for package in ("MKLpy", "torch", "cvxopt"):
        common.need(package)
    import torch
    from MKLpy.algorithms import EasyMKL

    torch.set_num_threads(1)
    model = EasyMKL(lam=0.1, multiclass_strategy="ova", learner=SVC(C=1.0))
    model.fit([torch.from_numpy(kernel) for kernel in K], torch.from_numpy(y.astype(int)))
    return lambda cross: np.asarray(model.predict([torch.from_numpy(kernel) for kernel in cross]))


def himalaya(K, y):
    common.need("himalaya")
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    classes = np.unique(y)
    search = {"n_iter": 20, "alphas": np.logspace(-4, 4, 9), "progress_bar": False}
    model = MultipleKernelRidgeCV(kernels="precomputed", solver_params=search, random_state=0)
    model.fit(K, (y[:, None] == classes).astype(float))
    return lambda cross: classes[np.asarray(model.predict(cross)).argmax(axis=1)]


RIVALS = {"EasyMKL of MKLpy": easy, "himalaya": himalaya}


def main():
    args = common.arguments(__doc__)
    splits, n = (2, 200) if args.quick else (SPLITS, TRAIN)
    results = common.Results("multiclass", args)
    plan = [(("ours", seed), measure, args.data, seed, n) for seed in range(splits)]
    plan += [
        ((rival, seed), measure_rival, args.data, rival, seed, n)
        for rival in RIVALS
        for seed in range(min(splits, RIVAL_SPLITS))
    ]
    results.fill(plan)
    ours = [c for seed in range(splits) if (c := results.get("ours", seed))]
    if not ours:
        return
    found = {name: [c[name] for c in ours] for name in OURS}
    found |= {r: [c for s in range(splits) if (c := results.get(r, s))] for r in RIVALS}
    rows = []
    for name, records in found.items():
        if records:
            right = np.array([r["accuracy"] for r in records])
            error = common.standard_error(right)
            seconds = float(np.median([r["seconds"] for r in records]))
            gaps = [r["gap"] for r in records if "gap" in r]
            told = float(right.mean()), error, len(records), seconds, max(gaps, default=None)
            rows.append([name, *told])
    header = ["", "accuracy, %", "± (splits)", "splits", "fit, s", "worst gap"]
    common.table(header, rows)
    judge(results, ours, None if args.quick else True)


def judge(results, ours, full):
    """The bars; ``full`` is None where the run was too small to tell."""
    ratio = float(np.median([c["summed"]["seconds"] / c[RIVAL]["seconds"] for c in ours]))
    text = "a whole fit takes at most half of OneVsRestClassifier(MKLClassifier(…))"
    results.bar(text, f"{ratio:.2f}", full and ratio <= 0.5)
    ratio = float(np.median([c["learn"]["summed"] / c["learn"]["apart"] for c in ours]))
    seconds = [float(np.median([c["learn"][k] for c in ours])) for k in ("summed", "apart")]
    text = "learn for the sum takes no longer than ten separate calls on the same stack"
    measured = f"{ratio:.2f}: {seconds[0]:.2f} s against {seconds[1]:.2f} s"
    results.bar(text, measured, full and ratio <= 1.0)
    difference = np.array([c["summed"]["accuracy"] - c[RIVAL]["accuracy"] for c in ours])
    error = common.standard_error(difference)
    text = "accuracy within one SE of OneVsRestClassifier's, or above"
    measured = f"{difference.mean():+.2f} ± {error:.2f} points"
    results.bar(text, measured, full and bool(difference.mean() >= -error))


RIVAL = "OneVsRestClassifier"

if __name__ == "__main__":
    main()
