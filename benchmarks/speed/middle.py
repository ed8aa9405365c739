"""Five to fifty thousand rows on a laptop: fits and searches beside those of one SVC

    gaussians  five Gaussians on 20 columns, C = 1; "smooth" classes, whose machine has few support
               vectors, and "wiggly" ones, most of whose rows are support vectors
    classes    five classes at 10,000 rows, beside one SVC for each against the rest
    table      4,600 rows of 57 columns as spam has them (most of them zero, some huge), the default
               bank, beside an SVC on standardized columns
    search     MKLClassifierCV on such a table beside a grid of 16 SVCs, on the same five folds

SVC as it comes from scikit-learn. The gap is that of the exact kernels. Processor seconds of one
thread, each fit in a process that has compiled everything, both by turns, the least of them; memory
is what the process holds at its peak above what it held before the fit.
"""

import time
import warnings

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.child_process import in_process
from benchmarks.harness.internals import as_if_large
from benchmarks.harness.resident_memory import resident

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
BARS = {10_000: (4.0, 1.5), 20_000: (5.0, 4.0), 50_000: (8.0, 14.0)}  # times SVC, and GiB


def signal(kind, X):
    smooth = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * (X[:, 3] ** 2 - 1.0)
    wiggly = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * (X[:, 3] ** 2 - 1.0)
    return smooth if kind == "smooth" else wiggly


def rows(kind, n, classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20))
    noisy = signal(kind, X) + 0.3 * rng.normal(size=n)
    return X, np.digitize(noisy, np.quantile(noisy, np.arange(1, classes) / classes))


def mail(n):
    """Shares of words, most of which a mail lacks, and lengths; every third is spam."""
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.4
    lean = rng.normal(size=57)
    likely = 1.0 / (1.0 + np.exp(1.5 - 0.8 * np.outer(2.0 * y - 1.0, lean)))
    X = np.exp(rng.normal(size=(n, 57))) * (rng.random((n, 57)) < likely)
    X[:, 54:] = np.exp(rng.normal(2.0 + 0.5 * y[:, None], 1.2, size=(n, 3)))
    return X, np.where(y ^ (rng.random(n) < 0.04), "spam", "mail")


def gaussians(tol):
    bank = kw.KernelBank([kw.Gaussian(width, relative=True) for width in WIDTHS])
    return kw.MKLClassifier(bank, C=1.0, tol=tol)


def compiled(model, X, y):
    """All that the fit will need, in both precisions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in ("float64", "float32"):
            with as_if_large(dtype):
                model.fit(X, y)


def by_turns(ours, theirs, X, y, repeats):
    """The least processor seconds of each, and the memory of our first fit."""
    seconds = {"ours": [], "svc": []}
    found = {}
    for turn in range(repeats):
        for name, model in (("ours", ours), ("svc", theirs)):
            before, began = resident("VmRSS"), time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X, y)
            seconds[name].append(time.process_time() - began)
            if turn == 0 and name == "ours":
                found["GiB"] = (resident("VmHWM") - before) / 1024
    found |= {name: min(values) for name, values in seconds.items()}
    return found | {"ratio": found["ours"] / found["svc"]}


def one_fit(kind, n, tol, classes, repeats):
    X, y = rows(kind, n, classes)
    ours, svc = gaussians(tol), SVC() if classes == 2 else OneVsRestClassifier(SVC())
    compiled(gaussians(tol), X[:600], y[:600])
    found = by_turns(ours, svc, X, y, repeats)
    found |= {"gap": ours.duality_gap_, "machines": ours.n_svm_solves_}
    return found | {"support vectors": len(ours.support_)}


def one_table(n, repeats):
    X, y = mail(n)
    ours = kw.MKLClassifier()
    compiled(kw.MKLClassifier(), X[:600], y[:600])
    found = by_turns(ours, make_pipeline(StandardScaler(), SVC()), X, y, repeats)
    return found | {"gap": ours.duality_gap_, "machines": ours.n_svm_solves_}


def one_search(n, repeats):
    X, y = mail(n)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    grid = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": [0.002, 0.01, 0.05, 0.2]}
    ours = kw.MKLClassifierCV(cv=folds)
    compiled(kw.MKLClassifierCV(cv=folds), X[:300], y[:300])
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=folds)
    found = by_turns(ours, search, X, y, repeats)
    scores = ours.cv_results_["mean_test_score"]
    found |= {"candidates": len(scores), "best": 100.0 * float(np.max(scores))}
    return found | {"svc best": 100.0 * float(search.best_score_)}


def main():
    args = common.arguments(
        __doc__,
        rows={"type": int, "nargs": "+", "default": None, "help": "how many; by default all three"},
    )
    sizes = args.rows or ([2000] if args.quick else [*BARS])
    few, table = (600, 500) if args.quick else (10_000, 4600)
    plan = []
    for kind in ("smooth", "wiggly"):
        for n in sizes:
            repeats = 1 if args.quick or n > 20_000 else 3
            plan.append(((kind, n, 1e-2), in_process, one_fit, kind, n, 1e-2, 2, repeats))
        plan.append(((kind, few, 1e-3), in_process, one_fit, kind, few, 1e-3, 2, 3))
        plan.append(((kind, "classes"), in_process, one_fit, kind, few, 1e-2, 5, 2))
    plan.append((("table",), in_process, one_table, table, 3))
    searches = [200] if args.quick else [1000, 4600]
    plan += [(("search", n), in_process, one_search, n, 2 if n < 2000 else 1) for n in searches]
    results = common.Results("middle", args)
    results.fill(plan)
    tell(results, sizes, few, searches)


def tell(results, sizes, few, searches):
    header = ["", "SVC s", "ours s", "ratio", "GiB", "gap", "machines", "support vectors"]
    lines, cells = [], {}
    for kind in ("smooth", "wiggly"):
        for n, tol in [*((n, 1e-2) for n in sizes), (few, 1e-3)]:
            cells[kind, n, tol] = results.get(kind, n, tol) or {}
            lines.append([f"{kind}, {n} rows, tol {tol:g}", *told(cells[kind, n, tol])])
        cells[kind, "classes"] = results.get(kind, "classes") or {}
        lines.append([f"{kind}, five classes", *told(cells[kind, "classes"])])
    cells["table"] = results.get("table") or {}
    lines.append(["4,600 × 57, default bank", *told(cells["table"])])
    common.table(header, lines)
    header = ["", "grid s", "ours s", "ratio", "candidates", "best score", "best of grid"]
    found = {n: results.get("search", n) or {} for n in searches}
    names = ("svc", "ours", "ratio", "candidates", "best", "svc best")
    common.table(header, [[f"{n} × 57", *map(found[n].get, names)] for n in searches])
    for n in sizes:
        most, memory = BARS.get(n, BARS[10_000])
        both = [cells[kind, n, 1e-2] for kind in ("smooth", "wiggly")]
        bar(results, f"{n} rows, tol 1e-2: at most {most:g} SVC", both, "ratio", most)
        bar(results, f"{n} rows: at most {memory:g} GiB", both, "GiB", memory)
        bar(results, f"{n} rows: the gap is certified", both, "gap", 1e-2)
    both = [cells[kind, few, 1e-3] for kind in ("smooth", "wiggly")]
    bar(results, f"{few} rows, tol 1e-3: at most 7 SVC", both, "ratio", 7.0)
    both = [cells[kind, "classes"] for kind in ("smooth", "wiggly")]
    bar(results, "five classes: at most 6 one-versus-rest SVC", both, "ratio", 6.0)
    bar(results, "4,600 × 57: at most 4 SVC", [cells["table"]], "ratio", 4.0)
    for n in searches:
        most = 4.0 if n > 2000 else 8.0
        bar(results, f"search, {n} × 57: at most {most:g} grids", [found[n]], "ratio", most)


def told(cell):
    return map(cell.get, ("svc", "ours", "ratio", "GiB", "gap", "machines", "support vectors"))


def bar(results, text, cells, name, most):
    """The worst of some cells."""
    values = [cell[name] for cell in cells if name in cell]
    worst = max(values) if len(values) == len(cells) else None
    results.bar(text, worst, None if worst is None else worst <= most)


if __name__ == "__main__":
    main()
