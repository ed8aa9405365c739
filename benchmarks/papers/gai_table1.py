"""Table 1 of gai2010: margin, radius-margin bound and radius-based kernel learning on eleven sets.

Five folds, ours stratified; features standardized and kernels brought to unit trace, ours on the
training rows alone; 10 Gaussians and polynomials of degree 1 to 10, all weights 1/20 at the start;
C from {0.01, 0.1, 1, 10, 100} by 3-fold cross-validation on the training rows, the smallest of
equals. Columns: equal weights; MKL, KL-C and RKL (``radius``) under the L1 and the L2 norm; RKL
without a norm. The projected gradient with Armijo's rule runs beside, at the C chosen: how many
evaluations to within 1e-3 of the optimum? It is ``Radius("gradient")``: steps are scaled by the
weights and of spectral length, and cutting planes finish. The paper's has none of these.

Cells more than two of the paper's standard deviations away are listed with what else was measured:
margin columns at other C, and other readings of what the paper leaves open. A cell counts as
explained where one such change brings it near; the readings were chosen after the table was seen.

For KL-C one reading brings all but one of the 22 cells near: the ridge of 1/C also in R², as where
the bound was first proposed, and points classified without the bias, by the sign of f alone. Of the
readings below it alone falls below the larger class, as the paper does on wpbc. It takes both: with
the ridge and the bias eleven cells are far. Under L2 the numbers of kernels come closer, too.
Whether the authors did so is a guess.

At unit trace accuracies of the margin columns mostly climb with C, beyond the largest allowed. At C
= 300 or 1,000 they are above those at the C chosen, but not on heart in all three columns, on colon
and wpbc under MKL-1, and on liver under MKL-2: any factor in the scale of the kernels moves these
cells. For equal weights exp(-d²/(2γ)) in place of exp(-d²/(2γ²)) is near the paper on all sets.
That, too, is a guess; for the other columns it was not tried here. On liver, equal weights, 57.97
is the 58.0 that is printed: the paper's standard deviation is 0, so that the digits left out count
as a miss.
"""

import itertools

import numpy as np

from benchmarks.harness import common
from benchmarks.harness.gai_cells import (
    COLUMNS,
    COSTS,
    FOLDS,
    KL_C,
    QUICK,
    SETS,
    fit,
    paper,
    prepare,
    split,
)
from kernelweave.learners import Radius, RadiusBound

SHOWS = "gai2010, table 1"
PROCESSES = 2
CLOSE, TOL = 1e-2, 1e-3  # relative gaps in cross-validation and at the end
SQUARED = "bandwidths as squared widths"  # exp(-|x - z|²/(2γ)) instead of exp(-|x - z|²/(2γ²))
RIDGE = "ridge in R²"  # as where the bound was first proposed
NO_BIAS = "ridge in R², no bias"  # points classified by the sign of f alone, also in choosing C
READINGS = {
    "unif": {SQUARED: COLUMNS["unif"]},
    "klc-1": {RIDGE: {**KL_C, "learner": RadiusBound(ridge_in_ball=True)}},
    "klc-2": {RIDGE: {**COLUMNS["klc-2"], "learner": RadiusBound(ridge_in_ball=True)}},
}
FLANKS = dict.fromkeys(["unif", "mkl-1", "mkl-2"], (30.0, 300.0, 1000.0))  # other C looked at


def best_costs(X, y, parts, fits, **reading):
    """The C of each fit by cross-validation."""
    scores = {key: np.zeros(len(COSTS)) for key in fits}
    for part, rest in parts:
        stack, judge = prepare(X, y, part, rest, **reading)
        for key, options in fits.items():
            scores[key] += path(stack, y[part], options, judge)
    return {key: COSTS[int(np.argmax(score))] for key, score in scores.items()}


def measure(data, name, repeat, fold, most):
    """All eight columns on one fold of a set, and their other readings."""
    X, y, train, test, parts = split(data, name, repeat, fold, most)
    fits = {(column, None): options for column, options in COLUMNS.items()}
    for column, readings in READINGS.items():
        fits |= {(column, reading): options for reading, options in readings.items()}
    record = {column: {"others": {}} for column in COLUMNS}
    for squared in (False, True):
        here = {key: fits[key] for key in fits if (key[1] == SQUARED) == squared}
        costs = best_costs(X, y, parts, here, squared=squared)
        stack, judge = prepare(X, y, train, test, squared=squared)
        for (column, reading), options in here.items():
            C = costs[column, reading]
            solution = fit(stack, y[train], C=C, tol=TOL, **options)
            if reading is not None:
                record[column]["others"][reading] = judge(solution)
                continue
            record[column] |= describe(solution, judge)
            if options["learner"] == "radius":
                record[column] |= plain_gradient(stack, y[train], C, options)
            for C in FLANKS.get(column, ()):
                solution = fit(stack, y[train], C=C, tol=TOL, **options)
                record[column]["others"][f"C={C:g}"] = judge(solution)
    return record


def without_bias(data, name, repeat, fold, most):
    """KL-C on one fold, read as ``NO_BIAS``."""
    X, y, train, test, parts = split(data, name, repeat, fold, most)
    fits = {column: READINGS[column][RIDGE] for column in ("klc-1", "klc-2")}
    costs = best_costs(X, y, parts, fits, bias=False)
    stack, judge = prepare(X, y, train, test, bias=False)
    return {
        column: describe(fit(stack, y[train], C=costs[column], tol=TOL, **options), judge)
        for column, options in fits.items()
    }


def describe(solution, judge):
    """A cell."""
    return {
        "C": solution.C,
        "accuracy": judge(solution),
        "kernels": int(np.count_nonzero(solution.weights > 1e-6 * solution.weights.max())),
        "objective": solution.objective,
        "gap": solution.gap,
        "status": solution.status,
        "solves": solution.n_svm_solves,
        "seconds": solution.seconds,
    }


def path(stack, y, options, judge):
    """Accuracy at every C, from the largest down; convex problems start from their neighbor."""
    accuracy, start = np.zeros(len(COSTS)), None
    for place in reversed(range(len(COSTS))):
        solution = fit(stack, y, C=COSTS[place], tol=CLOSE, start=start, **options)
        accuracy[place] = judge(solution)
        start = None if isinstance(options["learner"], RadiusBound) else solution
    return accuracy


def plain_gradient(stack, y, C, options):
    """Evaluations that the projected gradient needs to 1e-3 above the certified optimum."""
    best = fit(stack, y, C=C, tol=1e-5, **options)
    plain = fit(stack, y, C=C, tol=1e-4, **{**options, "learner": Radius("gradient")})
    near = np.flatnonzero(plain.history["objective"] <= best.dual * (1.0 + 1e-3))
    solves = plain.history["n_svm_solves"]
    return {
        "evaluations": int(solves[near[0]]) if near.size else None,
        "gradient_above_newton": plain.objective / best.objective - 1.0,
        "best_gap": best.gap,
    }


def cells_of(results, name, column, folds, repeats, *reading):
    found = [results.get(name, r, f, *reading) for r in range(repeats) for f in range(folds)]
    return [cell[column] for cell in found if cell and column in cell]


def summary(cells):
    """Mean accuracy, its standard deviation over the folds, and mean number of kernels."""
    accuracy = [cell["accuracy"] for cell in cells]
    return np.mean(accuracy), np.std(accuracy), common.mean(cells, "kernels")


def report(results, names, folds, repeats):
    rows, beside = [], common.Comparison("data", "method")
    for name in names:
        ours, theirs = [name, "ours"], ["", "paper"]
        for column in COLUMNS:
            cells, known = cells_of(results, name, column, folds, repeats), paper(name, column)
            theirs.append("{:.1f} ({:.1f}) {:g}".format(*known))
            ours.append("{:.1f} ({:.1f}) {:.1f}".format(*summary(cells)) if cells else None)
            values = [cell["accuracy"] for cell in cells]
            beside.add((name, column), values, known[0], known[1] / np.sqrt(FOLDS))
        rows += [ours, theirs]
    print("accuracy in % (standard deviation over the folds), number of kernels\n")
    common.table(["data", "", *COLUMNS], rows)
    beside.show(results, len(SETS) * len(COLUMNS))
    print()
    explain(results, names, folds, repeats)


def near(accuracy, known):
    """Whether it is within two of the paper's standard deviations, and its rounding."""
    return abs(accuracy - known[0]) <= 2.0 * known[1] + 0.05


def explain(results, names, folds, repeats):
    """Cells far from the paper's and what brings them there; then how far each reading agrees."""
    far, beside, counts = [], [], {}
    for name, column in itertools.product(names, COLUMNS):
        cells, known = cells_of(results, name, column, folds, repeats), paper(name, column)
        if not cells:
            continue
        found = summary(cells)[0]
        others = {key: np.mean([c["others"][key] for c in cells]) for key in cells[0]["others"]}
        if unbiased := cells_of(results, name, column, folds, repeats, NO_BIAS):
            others[NO_BIAS] = summary(unbiased)[0]
            text = "{:.1f} ({:.1f}) {:.1f}".format(*summary(unbiased))
            beside.append([name, column, text, "{:.1f} ({:.1f}) {:g}".format(*known)])
        for key, value in {"as above": found, **others}.items():
            counts.setdefault((column, key), []).append(near(value, known))
        if near(found, known):
            continue
        why = [f"as with {key}" for key, value in others.items() if near(value, known)]
        measured = ", ".join(f"{key}: {value:.1f}" for key, value in others.items())
        text = f"{known[0]:.1f} ± {known[1]:.1f}"
        far.append([name, column, f"{found:.1f}", text, "; ".join(why) or None, measured or None])
    print("cells more than two of the paper's standard deviations away\n")
    common.table(["data", "method", "ours", "paper", "explained", "also measured"], far)
    print(f"cells within two standard deviations, of {len(names)}, by reading\n")
    rows = [[*key, sum(count)] for key, count in sorted(counts.items()) if "C=" not in key[1]]
    common.table(["method", "reading", "near"], rows)
    print(f"KL-C, {NO_BIAS}: accuracy in % (standard deviation over the folds), kernels\n")
    common.table(["data", "method", "ours", "paper"], beside)
    explained = sum(row[4] is not None for row in far)
    results.bar(
        "every cell within two of the paper's standard deviations, or explained",
        f"{len(far)} are not, {explained} of them explained",
        len(far) == explained if len(names) == len(SETS) else None,
    )
    print()


def standing(accuracies, norm):
    """Whether RKL is best, equal or worse beside MKL and KL-C under one norm.

    As the paper counts, equal weights are a rival under the L1 norm alone.
    """
    rivals = [accuracies[column] for column in (f"mkl-{norm}", f"klc-{norm}")]
    rivals += [accuracies["unif"]] if norm == 1 else []
    mine, best = round(accuracies[f"rkl-{norm}"], 1), round(max(rivals), 1)
    return "best" if mine > best else "equal" if mine == best else "worse"


def bars(results, names, folds, repeats):
    counts = []
    for norm in (1, 2):
        for who in ("ours", "paper"):
            count = dict.fromkeys(("best", "equal", "worse"), 0)
            for name in names:
                known = {column: paper(name, column)[0] for column in COLUMNS}
                if who == "ours":
                    found = {c: cells_of(results, name, c, folds, repeats) for c in COLUMNS}
                    if not all(found.values()):
                        continue
                    known = {column: summary(cells)[0] for column, cells in found.items()}
                count[standing(known, norm)] += 1
            counts.append([f"L{norm}", who, *count.values()])
    print("sets on which RKL is best, equal or worse beside the others under the same norm\n")
    common.table(["norm", "", "best", "equal", "worse"], counts)

    cells = list(results.cells.values())
    complete = len(cells) == 2 * len(SETS) * FOLDS * repeats
    learned = [cell[c] for cell in cells for c in cell if c.startswith("rkl")]
    needed = [c["evaluations"] for c in learned]
    found = [n for n in needed if n is not None]
    average = float(np.mean(found)) if found else None
    results.bar(
        "scaled projected gradient within 1e-3 of the optimum after 24 evaluations, on average",
        f"{common.short(average)} on average, {len(needed) - len(found)} of {len(needed)} never",
        len(found) == len(needed) and average <= 24 if complete else None,
    )
    lowest = min((c["gradient_above_newton"] for c in learned), default=None)
    results.bar(
        "newton is never above the projected gradient by more than its certified gap",
        lowest,
        lowest >= -1e-5 if complete else None,
    )
    spent = sum(cell["took"] for cell in cells) / PROCESSES
    results.bar(
        "the whole table in 60 minutes on 2 cores",
        f"{spent / 60:.1f} minutes",
        spent <= 3600 if complete else None,
    )


def main():
    args = common.arguments(
        __doc__,
        sets={"nargs": "+", "choices": SETS, "default": SETS, "metavar": "SET"},
        repeats={"type": int, "default": 1, "help": "times that the folds are drawn"},
    )
    names, folds, repeats, most = args.sets, FOLDS, args.repeats, None
    if args.quick:
        folds, repeats, most = 1, 1, QUICK
        print(f"a small run: one fold, at most {QUICK} rows of each set, unlike the paper\n")
    plan = [(n, r, f) for r in range(repeats) for f in range(folds) for n in names]
    results = common.Results("gai_table1", args)
    jobs = [(key, measure, args.data, *key, most) for key in plan]
    jobs += [((*key, NO_BIAS), without_bias, args.data, *key, most) for key in plan]
    results.fill(jobs, PROCESSES)
    report(results, names, folds, repeats)
    bars(results, names, folds, repeats)


if __name__ == "__main__":
    main()
