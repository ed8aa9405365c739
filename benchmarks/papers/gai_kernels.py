"""Numbers of kernels in table 1 of gai2010: are they those of the optimum, or of the method?

The folds, kernels and C are those of ``gai_table1``, whose results have to be there. RKL is solved
twice: to a certified gap of 1e-4 (``Radius``), and by the algorithm of the paper's section 5 alone
(``Radius(finish=False)``), of which the paper says that one or two dozens of evaluations suffice.
A kernel counts if its weight is above 1e-6 of the largest; "1 %" counts those above a hundredth.
On heart and wpbc, where our numbers are far from the paper's, all five C are shown.

They are those of the method. On heart the optimum has 2.0 kernels, and after 24 evaluations the
paper's algorithm has 5.2 under all three norms, where the paper prints 5.2, 5.4 and 5.8. On
wpbc it goes from 3.8 to between 7 and 11, where the paper prints 15 to 17: part
of the way, at no C more. There a fit says little but that one class is larger, so that many
weights do as well; where the paper began or stopped may decide. On german the algorithm has more
kernels than the paper, 11 against 5 to 6.
"""

import itertools

import numpy as np

from benchmarks.harness import common
from benchmarks.harness.gai_cells import COSTS, FOLDS, QUICK, SETS, fit, paper, prepare, split
from kernelweave.learners import Radius

SHOWS = "gai2010, table 1 (numbers of kernels)"
NORMS = {"rkl-1": 1, "rkl-2": 2, "rkl": None}
FAR = ("heart", "wpbc")  # all C are tried
EVALUATIONS = (12, 24)
STEPS = 40


def count(weights, least=1e-6):
    """Kernels with a weight."""
    return int(np.count_nonzero(weights > least * weights.max()))


def measure(data, name, fold, costs, most):
    """Kernels of the optimum, and of the published algorithm as it goes."""
    X, y, train, test, _ = split(data, name, 0, fold, most)
    stack, judge = prepare(X, y, train, test)
    record = {}
    for (column, norm), C in itertools.product(NORMS.items(), COSTS):
        if C != costs[column] and name not in FAR:
            continue
        options = {"C": C, "weight_norm": norm, "tol": 1e-4}
        best = fit(stack, y[train], learner="radius", **options)
        steps = Published()
        found = fit(stack, y[train], learner=steps, **options)
        record[f"{column} {C:g}"] = {
            "chosen": C == costs[column],
            "optimum": count(best.weights),
            "accuracy": judge(best),
            **{f"after {k}": count(at(found, k)) for k in EVALUATIONS},
            "last": count(found.weights),
            "last 1 %": count(found.weights, 1e-2),
            "last accuracy": judge(found),
            "evaluations": found.n_svm_solves,
            "above": found.objective / best.dual - 1.0,
        }
    return record


class Published(Radius):
    """The algorithm of section 5 alone, for so many steps."""

    def __init__(self):
        super().__init__(finish=False)

    def iterate(self, evaluator, incumbent, e, tol):
        return itertools.islice(super().iterate(evaluator, incumbent, e, tol), STEPS)


def at(solution, evaluations):
    """The weights after so many evaluations."""
    history = solution.history
    place = np.searchsorted(history["n_svm_solves"], evaluations, side="right") - 1
    return history["weights"][max(place, 0)]


HEAD = ["optimum", *(f"after {k}" for k in EVALUATIONS), "last", "last 1 %"]


def report(results, names, folds):
    rows, by_cost, above, evaluations = [], [], [], []
    for name, column in itertools.product(names, NORMS):
        cells = [results.get(name, fold) for fold in range(folds)]
        found = [cell for cell in cells if cell]
        if not found:
            continue
        every = [pair for cell in found for pair in cell.items() if pair[0] != "took"]
        at_chosen = [v for key, v in every if key.startswith(f"{column} ") and v["chosen"]]
        above += [v["above"] for v in at_chosen]
        evaluations += [v["evaluations"] for v in at_chosen]
        line = [f"{common.mean(at_chosen, key):.1f}" for key in HEAD]
        rows.append([name, column, *line, f"{paper(name, column)[2]:g}"])
        for C in COSTS if name in FAR else ():
            these = [cell[f"{column} {C:g}"] for cell in found]
            line = [f"{common.mean(these, key):.1f}" for key in HEAD]
            scores = [f"{common.mean(these, key):.1f}" for key in ("accuracy", "last accuracy")]
            by_cost.append([name, column, f"{C:g}", *line, *scores])
    print("kernels at the C chosen, on average over the folds\n")
    common.table(["data", "method", *HEAD, "paper"], rows)
    print("kernels at each C\n")
    common.table(["data", "method", "C", *HEAD, "accuracy of the optimum", "of the last"], by_cost)
    if above:
        print(
            f"the published algorithm after at most {STEPS} steps: {np.mean(evaluations):.0f} "
            f"evaluations on average, {np.median(above):.1e} above the bound in the median, "
            f"{max(above):.1e} at most\n"
        )


def main():
    args = common.arguments(
        __doc__, sets={"nargs": "+", "choices": SETS, "default": SETS, "metavar": "SET"}
    )
    folds, most = (1, QUICK) if args.quick else (FOLDS, None)
    table = common.Results("gai_table1", args)
    results = common.Results("gai_kernels", args)
    jobs = []
    for fold, name in itertools.product(range(folds), args.sets):
        cell = table.get(name, 0, fold)
        costs = {c: cell[c]["C"] if cell else 1.0 for c in NORMS}
        jobs.append(((name, fold), measure, args.data, name, fold, costs, most))
    results.fill(jobs)
    report(results, args.sets, folds)


if __name__ == "__main__":
    main()
