"""Does MKL help on data of several views? Against the best view, equal weights, one long vector.

Five data sets, each split at random into training and test rows 20 times. Methods: each view alone,
with equal weights for its kernels; the best view, as 3-fold cross-validation on the training rows
finds it; all views concatenated, again with equal weights; equal weights for all kernels of all
views (uniform); MKL (``newton``) with weights in the ℓ1 and in the ℓ2 ball; ``radius``. C is one of
{0.1, 1, 10, 100} by the same cross-validation: the best accuracy, among equals the best area under
the ROC curve, then the smallest. Test rows decide nothing.

Scores are means ± standard errors over the splits, in per cent. Splits share rows, so that their
scores are not independent: differences are tested by the corrected t test of Nadeau and Bengio
(Machine Learning 52, 2003), with the share of test rows that two splits have in common for their
correlation. A set of several tasks is judged by the mean over them. "Better" and "worse" mean
p < 0.05, with no correction for the number of tests on this page, and "no difference" that none
could be shown; ± after a difference is half of its 95 % interval.
"""

import warnings

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

import kernelweave as kw
from benchmarks.harness import common, multiview_data

SPLITS, FOLDS = 20, 3
COSTS = (0.1, 1.0, 10.0, 100.0)
CLOSE, TOL = 1e-2, 1e-3  # relative gaps in cross-validation and at the end
LEVEL = 0.05
LEARNED = {
    "MKL ℓ1": {"learner": "newton"},
    "MKL ℓ2": {"learner": "newton", "weight_norm": 2},
    "radius": {"learner": "radius"},
}
RIVALS = ("best view", "concatenated", "uniform")
SCORES = {"accuracy": "accuracy", "auc": "area under the ROC curve"}


# ---- one split ---------------------------------------------------------------------------------


class Kernels:
    """All kernels on the training rows (``K``) and of test against training rows (``cross``).

    First come kernels to be used alone, means of the kernels of each view, of the concatenation
    and of all views together; then the views' kernels one by one, ``owners`` naming their views.
    ``counts`` says of how many each mean is.
    """

    def __init__(self, views, train, test):
        X, X_test = views.X[train], views.X[test]
        parts = {name: matrices(bank, X, X_test) for name, bank in views.banks.items()}
        every = [np.concatenate(both) for both in zip(*parts.values(), strict=True)]
        alone = {**parts, "concatenated": matrices(views.joint, X, X_test), "uniform": every}
        self.owners = [name for name, (K, _) in parts.items() for _ in K]
        self.counts = {name: len(K) for name, (K, _) in alone.items()}
        means = [[M.mean(axis=0)[None] for M in both] for both in alone.values()]
        self.K, self.cross = (np.concatenate(both) for both in zip(*means, every, strict=True))

    def methods(self):
        """Name, places of its kernels, options of ``learn``."""
        for place, name in enumerate(self.counts):
            yield name, [place], {"learner": "uniform"}
        for name, options in LEARNED.items():
            yield name, np.arange(len(self.counts), len(self.K)), options

    def by_view(self, weights):
        """The share of each view in the weights."""
        total = dict.fromkeys(self.owners, 0.0)
        for view, weight in zip(self.owners, weights / weights.sum(), strict=True):
            total[view] += float(weight)
        return {view: round(share, 4) for view, share in total.items()}


def matrices(bank, X, X_test):
    """The bank's kernels on X, and of X_test against X."""
    fitted = quietly(bank.fit, X, n_jobs=None)
    return common.matrices(fitted.stack), fitted.cross_stack(X_test)


def measure(data, name, seed):
    """All tasks and methods on one split."""
    return measure_split(multiview_data.load(name, data), seed)


def measure_split(views, seed):
    train, test = views.split(seed)
    kernels = Kernels(views, train, test)
    stack = kw.KernelStack(kernels.K, check=False)
    inner = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    folds = [
        (part, rest, stack.restrict(part), kernels.K[:, rest[:, None], part])
        for part, rest in inner.split(train, views.strata[train])
    ]
    tasks = {
        task: measure_task(kernels, stack, folds, y[train], y[test])
        for task, y in views.tasks.items()
    }
    return {"pool": len(views.X), "train": len(train), "test": len(test), "tasks": tasks}


def measure_task(kernels, stack, folds, y, y_test):
    """Every method at its own C on all training rows, judged on the test rows."""
    record, valid = {}, {}
    for name, which, options in kernels.methods():
        scores = np.zeros((len(COSTS), 2))
        for part, rest, some, cross in folds:
            kept = some.select(which)
            path = quietly(kw.regularization_path, kept, y[part], COSTS, tol=CLOSE, **options)
            scores += [judge(solution, cross[which], y[rest]) for solution in path]
        place = best(scores)
        C, valid[name] = COSTS[place], scores[place]
        solution = quietly(kw.learn, stack.select(which), y, C=C, tol=TOL, **options)
        accuracy, auc = judge(solution, kernels.cross[which], y_test)
        gap = float(f"{solution.gap:.2g}")
        record[name] = {"C": C, "accuracy": round(accuracy, 4), "auc": round(auc, 4), "gap": gap}
        if name in LEARNED:
            record[name]["views"] = kernels.by_view(solution.weights)
            record[name]["kernels"] = common.sparsity(solution.weights)["kernels_above_1e-3"]
        else:
            record[name]["kernels"] = kernels.counts[name]
    views = list(dict.fromkeys(kernels.owners))
    chosen = views[best([valid[view] for view in views])]
    return {**record, "best view": {**record[chosen], "view": chosen}}


def judge(solution, cross, y):
    """Accuracy and area under the ROC curve, in per cent."""
    values = solution.decision_function(cross)
    return common.accuracy(values, y), 100.0 * float(roc_auc_score(y, values))


def best(scores):
    """The place of the best accuracy, by area among equals, then the first."""
    return max(range(len(scores)), key=lambda k: (*np.round(scores[k], 9), -k))


def quietly(function, *args, **options):
    """Without warnings: gaps are recorded, and kernels left out are few."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


# ---- report ------------------------------------------------------------------------------------


class Found:
    """What is known of a data set: one number per split for each task, method and field."""

    def __init__(self, cells):
        self.splits = [cell["tasks"] for cell in cells]
        self.shared = cells[0]["test"] / cells[0]["pool"]
        self.tasks = list(self.splits[0])
        first = self.splits[0][self.tasks[0]]
        self.views = list(first["MKL ℓ1"]["views"])
        self.methods = [*self.views, *RIVALS, *LEARNED]
        self.columns = {task: [task] for task in self.tasks}
        if len(self.tasks) > 1:
            self.columns["all tasks"] = self.tasks

    def values(self, method, field, tasks=None):
        """One number per split, the mean over the tasks."""
        tasks = tasks or self.tasks
        return np.array([np.mean([s[t][method][field] for t in tasks]) for s in self.splits])

    def test(self, method, rival, field, tasks=None):
        """Mean difference, half of its 95 % interval, p."""
        difference = self.values(method, field, tasks) - self.values(rival, field, tasks)
        return common.corrected_t_test(difference, self.shared)

    def records(self, method):
        return [tasks[t][method] for tasks in self.splits for t in self.tasks]


def plus_minus(values):
    return f"{values.mean():.2f} ± {common.standard_error(values):.2f}"


def chance(p):
    return f"p {p:.3f}" if p >= 0.001 else "p < 0.001"


def details(name, found):
    print(f"## {name}\n\n{multiview_data.ABOUT[name]} {len(found.splits)} splits.\n")
    for field, title in SCORES.items():
        common.table(
            [f"{title}, %", *found.columns],
            [
                [m, *(plus_minus(found.values(m, field, t)) for t in found.columns.values())]
                for m in found.methods
            ],
        )
    for field, title in SCORES.items():
        rows = []
        for method in LEARNED:
            for rival in RIVALS:
                tests = [found.test(method, rival, field, t) for t in found.columns.values()]
                told = [f"{difference:+.2f} ({chance(p)})" for difference, _, p in tests]
                rows.append([f"{method} − {rival}", *told])
        common.table([f"difference of {title}", *found.columns], rows)
    chosen = [record["view"] for record in found.records("best view")]
    shares = [f"{100 * chosen.count(view) / len(chosen):.0f} %" for view in found.views]
    rows = [["taken for the best view", *shares, None]]
    for method in LEARNED:
        records = found.records(method)
        weights = [f"{np.mean([r['views'][view] for r in records]):.2f}" for view in found.views]
        rows.append([f"weight, {method}", *weights, f"{common.mean(records, 'kernels'):.1f}"])
    common.table(["", *found.views, f"kernels of {found.records('uniform')[0]['kernels']}"], rows)


def verdict(found, method, rival, field):
    """Whether a method is better, worse or neither, and by how much."""
    difference, half, p = found.test(method, rival, field)
    way = "no difference" if p >= LEVEL else "better" if difference > 0.0 else "worse"
    return f"{way} ({difference:+.2f} ± {half:.2f})"


def summary(found):
    """One line per data set, then every method against every rival."""
    print("## Does MKL help?\n")
    for name, of in found.items():
        told = [
            f"{method} against the best view: {verdict(of, method, 'best view', 'accuracy')}, "
            f"against equal weights: {verdict(of, method, 'uniform', 'accuracy')}"
            for method in ("MKL ℓ1", "MKL ℓ2")
        ]
        print(f"- **{name}**, points of accuracy. {'. '.join(told)}.")
    for rival in RIVALS:
        told = []
        for method in LEARNED:
            ways = [verdict(of, method, rival, "accuracy") for of in found.values()]
            better, worse = (sum(w.startswith(way) for w in ways) for way in ("better", "worse"))
            told.append(f"{method} better on {better}, worse on {worse}")
        print(f"- Against {rival}, of {len(found)} sets: {'; '.join(told)}.")
    print()
    for field, title in SCORES.items():
        rows = [
            [name, *(plus_minus(of.values(m, field)) for m in (*RIVALS, *LEARNED))]
            for name, of in found.items()
        ]
        common.table([f"{title}, %, all tasks", *RIVALS, *LEARNED], rows)
    for field, title in SCORES.items():
        rows = [
            [f"{name}, {method}", *(verdict(of, method, rival, field) for rival in RIVALS)]
            for name, of in found.items()
            for method in LEARNED
        ]
        common.table([f"{title}, against", *RIVALS], rows)


def main():
    args = common.arguments(
        __doc__,
        sets={"nargs": "+", "choices": multiview_data.SETS, "metavar": "SET"},
        splits={"type": int, "default": SPLITS, "help": f"splits of each set ({SPLITS})"},
        processes={"type": int, "default": 1, "help": "processes that share the splits (1)"},
    )
    names, splits = args.sets or list(multiview_data.SETS), args.splits
    if args.quick:
        names, splits = ["tcga", "webkb"], 2
    results = common.Results("multiview", args)
    plan = [(name, seed) for name in names for seed in range(splits)]
    results.fill([(key, measure, args.data, *key) for key in plan], args.processes)
    cells = {n: [c for s in range(splits) if (c := results.get(n, s))] for n in names}
    found = {name: Found(of) for name, of in cells.items() if len(of) > 1}
    summary(found)
    for name, of in found.items():
        details(name, of)


if __name__ == "__main__":
    main()
