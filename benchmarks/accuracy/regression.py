"""Regression: MKLRegressorCV against SVR and KernelRidge, all tuned alike, and himalaya.

Five data sets, 10 random splits: two thirds of the rows to train, at most 400; the others test, at
most 2,000. All methods see columns and targets at mean 0 and variance 1. C (for KernelRidge its
inverse, the ridge) is one of {0.01, 0.1, 1, 10, 100}. SVR and KernelRidge also choose the width of
their Gaussian, γ = {0.1, 0.3, 1, 3}/columns; MKLRegressorCV chooses its kernels and the norm of
their weights, from what it has by itself (and knows the views where there are several). All choose
by the same 5-fold cross-validation on the training rows. himalaya (MultipleKernelRidgeCV) gets the
default kernels (of each view) and is left at its defaults. Seconds are the processor's, tuning
included.

Two standard errors over splits are shown: that of the rival's R², by which the bar is read, and
that of the paired differences, which is small where both choose nearly the same model.

KernelRidge is the better rival on most sets because R² is its loss, and that of MKLRegressorCV as
it comes. "with ε" is ``loss="epsilon_insensitive"``, the loss of SVR, with which it is compared.
That MKLRegressorCV tries Gaussians alone was decided after these sets had shown the need, on other
numbers to predict: Friedman's first function, and columns of wine, wdbc, pima, covertype and the
mfeat digits.
"""

import time
import warnings

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import kernelweave as kw
from benchmarks.harness import common, regression_sets

SPLITS, FOLDS = 10, 5
COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
GAMMAS = (0.1, 0.3, 1.0, 3.0)
PLAIN, EPSILON = "MKLRegressorCV", "with ε"
OURS = {PLAIN: {}, EPSILON: {"loss": "epsilon_insensitive"}}
TUNED = ("SVR", "KernelRidge")
METHODS = (*OURS, *TUNED, "himalaya")
RIVALS = {PLAIN: TUNED, EPSILON: ("SVR",)}  # the better of which each of ours is compared with


def measure(data, name, method, seed):
    """R² of one method on one split, and its processor seconds."""
    X, y, X_test, y_test = regression_sets.split(name, data, seed)
    views = regression_sets.load(name, data)[2]
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns of a split
        if method == "himalaya":
            values, told = himalaya(X, y, X_test, views), {}
        else:
            search = tuned(method, views, X.shape[1], seed).fit(X, y)
            values = search.predict(X_test)
            told = {key: str(value) for key, value in search.best_params_.items()}
            if method in OURS:
                told["gap"] = float(search.best_estimator_.duality_gap_)
    seconds = time.process_time() - began
    return {"r2": float(r2_score(y_test, values)), "seconds": seconds, **told}


def tuned(method, views, columns, seed):
    """The method with its hyperparameters chosen by cross-validation."""
    folds = KFold(FOLDS, shuffle=True, random_state=seed)
    if method in OURS:
        return kw.MKLRegressorCV(Cs=COSTS, views=views, cv=folds, **OURS[method])
    inner = SVR() if method == "SVR" else KernelRidge(kernel="rbf")
    scaled = make_pipeline(StandardScaler(), inner)
    model = TransformedTargetRegressor(scaled, transformer=StandardScaler())
    prefix = f"regressor__{type(inner).__name__.lower()}__"
    grid = {f"{prefix}gamma": [g / columns for g in GAMMAS]}
    if method == "SVR":
        grid[f"{prefix}C"] = COSTS
    else:
        grid[f"{prefix}alpha"] = [1.0 / C for C in COSTS]
    return GridSearchCV(model, grid, cv=folds)


def bank(views):
    return kw.KernelBank() if views is None else kw.KernelBank(views=views)


def himalaya(X, y, X_test, views):
    """Predictions of multiple-kernel ridge regression as it comes, on our kernels."""
    common.need("himalaya")
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    fitted = bank(views).fit(X)
    search = {"progress_bar": False}
    model = MultipleKernelRidgeCV(kernels="precomputed", solver_params=search, random_state=0)
    model.fit(common.matrices(fitted.stack), (y - y.mean()) / y.std())
    return model.predict(fitted.cross_stack(X_test)) * y.std() + y.mean()


def main():
    args = common.arguments(__doc__)
    names = ["diabetes", "bupa"] if args.quick else list(regression_sets.ABOUT)
    splits = 2 if args.quick else SPLITS
    results = common.Results("regression", args)
    plan = [(n, m, seed) for seed in range(splits) for n in names for m in METHODS]
    results.fill([(key, measure, args.data, *key) for key in plan])
    rows, seconds, behind = [], [], {}
    for name in names:
        cells = {m: [results.get(name, m, seed) for seed in range(splits)] for m in METHODS}
        if not all(all(cells[m]) for m in (*OURS, *TUNED)):
            continue
        found = {m: [cell for cell in c if cell] for m, c in cells.items()}
        r2 = {m: np.array([cell["r2"] for cell in c]) for m, c in found.items()}
        rows.append([name, *(told(r2[m]) for m in METHODS)])
        seconds.append([name, *(common.mean(found[m], "seconds") for m in METHODS)])
        for method, rivals in RIVALS.items():
            best = max(rivals, key=lambda m: r2[m].mean())
            behind[name, method] = *paired(r2[method], r2[best]), best
    common.table(["R² ± standard error over splits", *METHODS], rows)
    common.table(["seconds of the processor, tuning included", *METHODS], seconds)
    header = ["", "difference of R²", "± (rival's R²)", "± (paired)", "against"]
    common.table(header, [[f"{n}, {method}", *of] for (n, method), of in behind.items()])
    for n in names:
        print(f"- {n}: {regression_sets.ABOUT[n]}.")
    print()
    for method, rivals in RIVALS.items():
        found = [of for (_, m), of in behind.items() if m == method]
        good, strict = (sum(of[0] >= -of[place] for of in found) for place in (1, 2))
        met = good == len(found) if len(found) == len(regression_sets.ABOUT) else None
        against = f"the better of {' and '.join(rivals)}" if len(rivals) > 1 else rivals[0]
        text = f"{method}: R² at most one SE (of the rival's R²) below {against}"
        results.bar(text, f"{good} of {len(found)} sets", met)
        print(f"  By the SE of the paired differences it is {strict} of {len(found)} sets.")


def paired(ours, theirs):
    """Mean difference, the standard error over splits of the rival's R², and that of the pairs."""
    difference = ours - theirs
    return difference.mean(), common.standard_error(theirs), common.standard_error(difference)


def told(values):
    if not values.size:
        return None
    return f"{values.mean():.3f} ± {common.standard_error(values):.3f}"


if __name__ == "__main__":
    main()
